/* Threads that do anything to each other, at random, and are deleted, cancelled and suspended anywhere: what they hold
 * is one thread's at a time, all go on when they are woken, and nothing is held in the end. */
#include <rtl.h>
#include <time.h>
#include <rtl_sched.h>
#include <pthread.h>
#include <semaphore.h>
#include <rtl_spinlock.h>
#include <rtl_fifo.h>
#include <signal.h>
#include <errno.h>
#include <linux/module.h>

#define WORKERS 7
#define MUTEXES 3
#define FIFO 5
#define MESSAGE 24

static int seed = 1, rounds = 200;
MODULE_PARM(seed, "i");
MODULE_PARM(rounds, "i");

static pthread_t conductor, waker, workers[WORKERS];
static pthread_mutex_t mutexes[MUTEXES];
static pthread_spinlock_t spinlock;
static pthread_cond_t condition;
static sem_t semaphore;
/* Who has a mutex, and last the spinlock and what stands for disabled interrupts. */
static volatile long owners[MUTEXES + 2];
static volatile unsigned steps[WORKERS], doing[WORKERS];
static volatile int handled, wrong, value;
static int other_cpu;
static unsigned conducting;

/* The first line at which something was not as it should be, and what was found there. */
#define CHECK(condition, found) do { if (!(condition) && !wrong) { wrong = __LINE__; value = (found); } } while (0)

static unsigned chance(unsigned *state, unsigned most)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % most;
}

static void handler(int signal) { handled++; }

static struct timespec soon(unsigned *state, unsigned microseconds)
{
    return timespec_from_ns(gethrtime() + chance(state, microseconds) * 1000LL);
}

static void alone(long me, int what, unsigned *state)
{
    owners[what] = me;
    if (chance(state, 2)) rtl_delay(chance(state, 20000));
    else if (what < MUTEXES && chance(state, 3) == 0) usleep(chance(state, 300));
    CHECK(owners[what] == me, what);
}

/* Has a mutex by `how`, whose failure may be `refusal`. */
static void with_mutex(long me, int which, int how, int refusal, unsigned *state)
{
    CHECK(how == 0 || how == refusal, how);
    if (how != 0) return;
    alone(me, which, state);
    how = pthread_mutex_unlock(&mutexes[which]);
    CHECK(how == 0, how);
}

static void put(long me)
{
    char message[MESSAGE];
    int at, done;
    for (at = 0; at < MESSAGE; at++) message[at] = (char)(me + at);
    done = rtf_put(FIFO, message, MESSAGE);
    CHECK(done == MESSAGE || done == -ENOSPC, done);
}

/* One reader at a time: a message is whole, and from one thread. */
static void get(long me)
{
    char message[MESSAGE];
    int at, done = pthread_mutex_lock(&mutexes[0]);
    CHECK(done == 0, done);
    owners[0] = me;
    done = rtf_get(FIFO, message, MESSAGE);
    CHECK(done == 0 || done == MESSAGE, done);
    for (at = 1; at < done; at++) CHECK(message[at] == (char)(message[0] + at), at);
    CHECK(owners[0] == me, 0);
    done = pthread_mutex_unlock(&mutexes[0]);
    CHECK(done == 0, done);
}

static void periods(unsigned *state)
{
    int count = chance(state, 4);
    pthread_make_periodic_np(pthread_self(), gethrtime() + 100000, 200000 + chance(state, 300000));
    while (count-- >= 0) pthread_wait_np();
}

static void step(long me, int what, unsigned *state)
{
    int which = chance(state, MUTEXES);
    pthread_t other = workers[chance(state, WORKERS)];
    unsigned long flags;
    struct timespec until = soon(state, 800);
    struct sched_param parameters;
    sigset_t all;
    switch (what) {
    case 0: case 1: case 2: with_mutex(me, which, pthread_mutex_lock(&mutexes[which]), 0, state); break;
    case 3: with_mutex(me, which, pthread_mutex_timedlock(&mutexes[which], &until), ETIMEDOUT, state); break;
    case 4: with_mutex(me, which, pthread_mutex_trylock(&mutexes[which]), EBUSY, state); break;
    case 5: sem_post(&semaphore); break;
    case 6: sem_wait(&semaphore); break;
    case 7: sem_timedwait(&semaphore, &until); break;
    case 8: case 9:
        if (pthread_mutex_lock(&mutexes[which]) != 0) { CHECK(0, which); break; }
        if (what == 8) pthread_cond_timedwait(&condition, &mutexes[which], &until);
        else pthread_cond_wait(&condition, &mutexes[which]);
        with_mutex(me, which, 0, 0, state);
        break;
    case 10: pthread_cond_signal(&condition); break;
    case 11: pthread_cond_broadcast(&condition); break;
    case 12: usleep(chance(state, 500)); break;
    case 13: pthread_suspend_np(pthread_self()); break;
    case 14: case 15: pthread_wakeup_np(other); break;
    case 16: pthread_suspend_np(other); break;
    case 17: pthread_kill(other, RTL_SIGUSR1); break;
    case 18: put(me); break;
    case 19: get(me); break;
    case 20: rtl_spin_lock(&spinlock); alone(me, MUTEXES, state); rtl_spin_unlock(&spinlock); break;
    case 21: rtl_no_interrupts(flags); alone(me, MUTEXES + 1, state); rtl_restore_interrupts(flags); break;
    case 22: kfree(kmalloc(1 + chance(state, 9000), GFP_KERNEL)); break;
    case 23:
        parameters.sched_priority = 10 + chance(state, 8);
        pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
        break;
    case 24: periods(state); break;
    default:
        sigfillset(&all);
        sigprocmask(chance(state, 2) ? SIG_BLOCK : SIG_UNBLOCK, &all, NULL);
    }
}

/* The argument is a number of its own, and in its lowest bits its place among the workers. */
static void *worker(void *argument)
{
    long me = (long)argument, place = me & 15;
    unsigned state = (unsigned)(me >> 4) ^ (seed * 7919);
    if (chance(&state, 2)) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    while (1) {
        doing[place] = chance(&state, 26);
        steps[place]++;
        step(me, doing[place], &state);
    }
    return 0;
}

static pthread_t begin(void *(*function)(void *), int priority, int cpu, long argument)
{
    pthread_attr_t attributes;
    struct sched_param parameters;
    pthread_t thread = 0;
    int refused;
    pthread_attr_init(&attributes);
    parameters.sched_priority = priority;
    pthread_attr_setschedparam(&attributes, &parameters);
    if (cpu >= 0) pthread_attr_setcpu_np(&attributes, cpu);
    refused = pthread_create(&thread, &attributes, function, (void *)argument);
    CHECK(refused == 0, refused);
    return thread;
}

static void begin_worker(int place)
{
    static long number;
    int cpu = chance(&conducting, 2) ? other_cpu : -1;
    workers[place] = begin(worker, 10 + chance(&conducting, 8), cpu, (++number << 4) | place);
}

static void wake_all(void)
{
    int place;
    for (place = 0; place < WORKERS; place++) {
        pthread_wakeup_np(workers[place]);
        sem_post(&semaphore);
    }
    pthread_cond_broadcast(&condition);
}

static void *wake(void *argument)
{
    while (1) { usleep(3000); wake_all(); }
    return 0;
}

/* Whoever is woken, whatever it waited for, does something else within some seconds. */
static void all_go_on(void)
{
    unsigned before[WORKERS];
    int place, tries;
    for (place = 0; place < WORKERS; place++) before[place] = steps[place];
    for (tries = 0; tries < 5000; tries++) {
        for (place = 0; place < WORKERS && steps[place] != before[place]; place++) ;
        if (place == WORKERS) return;
        wake_all();
        usleep(1000);
    }
    CHECK(0, place * 100 + doing[place]);
}

static void *conduct(void *argument)
{
    int round, place, refused;
    conducting = seed;
    for (place = 0; place < WORKERS; place++) begin_worker(place);
    for (round = 1; round <= rounds && !wrong; round++) {
        usleep(500 + chance(&conducting, 4000));
        place = chance(&conducting, WORKERS);
        refused = 0;
        switch (chance(&conducting, 6)) {
        case 0: case 1: refused = pthread_delete_np(workers[place]); begin_worker(place); break;
        case 2: case 3:
            pthread_cancel(workers[place]);
            refused = pthread_join(workers[place], NULL);
            begin_worker(place);
            break;
        case 4: wake_all(); break;
        case 5: pthread_kill(workers[place], RTL_SIGUSR1); pthread_suspend_np(workers[place]); break;
        }
        CHECK(refused == 0, refused);
        if (round % 20 == 0) all_go_on();
    }
    refused = pthread_delete_np(waker);
    CHECK(refused == 0, refused);
    for (place = 0; place < WORKERS; place++) {
        refused = pthread_delete_np(workers[place]);
        CHECK(refused == 0, refused);
    }
    for (place = 0; place < MUTEXES; place++) CHECK(pthread_mutex_destroy(&mutexes[place]) == 0, place);
    CHECK(pthread_cond_destroy(&condition) == 0, 0);
    CHECK(sem_destroy(&semaphore) == 0, 0);
    if (wrong) rtl_printf("? line %d: %d\n", wrong, value);
    rtl_printf(handled && !wrong ? "right\n" : "wrong\n");
    return 0;
}

int init_module(void)
{
    struct sigaction action;
    int cpu;
    for (cpu = 0; cpu < 64; cpu++) if (rtl_cpu_exists(cpu)) other_cpu = cpu;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(RTL_SIGUSR1, &action, NULL);
    sem_init(&semaphore, 0, 0);
    if (rtf_create(FIFO, 1000) != 0) return -1;
    waker = begin(wake, 41, -1, 0);
    conductor = begin(conduct, 40, -1, 0);
    return 0;
}

void cleanup_module(void)
{
    pthread_delete_np(conductor);
    rtf_destroy(FIFO);
}
