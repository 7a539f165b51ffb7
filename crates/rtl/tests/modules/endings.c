/* Threads that end while they hold something, wait for it, have just been woken, or are about to wait: what the others
 * get of it. Each line ends with "right", or with a question mark. */
#include <rtl.h>
#include <time.h>
#include <rtl_sched.h>
#include <pthread.h>
#include <semaphore.h>
#include <rtl_spinlock.h>
#include <errno.h>
#include <linux/module.h>

#define ROUNDS 60
#define MANY 40
#define TAKERS 2
#define HOWS 4

static const char *hows[HOWS] = { "deleted", "cancelled", "cancelled at once", "exits" };
enum { DELETED, CANCELLED, AT_ONCE, EXITS };

static pthread_t conductor;
static int other_cpu;

/* ---- what is held ---- */
static pthread_mutex_t mutexes[MANY];
static pthread_spinlock_t spin;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t taken, semaphore, done;
static volatile int how, what, inside[MANY], most, got, cleaned, held_in_cleanup, wrong, waiting;
static volatile hrtime_t start;
enum { A_MUTEX, A_SPINLOCK, MANY_MUTEXES, EXCLUSION, WHATS };
static const char *whats[WHATS] = { "a mutex", "a spinlock", "many mutexes", "disabled interrupts" };

static void until(hrtime_t time) { while (gethrtime() < time) ; }

/* Whether it comes true within some seconds. */
#define EVENTUALLY(condition) ({ int rtl_left = 5000; while (!(condition) && rtl_left-- > 0) usleep(1000); (condition); })

/* Where it is wrong, the last line here that found so. */
static void say(const char *state, const char *object, int is_right)
{
    if (is_right) rtl_printf("%s, %s: right\n", object, state);
    else rtl_printf("%s, %s: ? %d at a time, line %d\n", object, state, most + 1, wrong);
}

static pthread_t begin(void *(*function)(void *), int priority, int cpu, long argument)
{
    pthread_attr_t attributes;
    struct sched_param parameters;
    pthread_t thread;
    pthread_attr_init(&attributes);
    parameters.sched_priority = priority;
    pthread_attr_setschedparam(&attributes, &parameters);
    if (cpu >= 0 && pthread_attr_setcpu_np(&attributes, cpu) != 0) wrong = __LINE__;
    if (pthread_create(&thread, &attributes, function, (void *)argument) != 0) wrong = __LINE__;
    return thread;
}

static void end(pthread_t thread)
{
    if (how == DELETED) {
        if (pthread_delete_np(thread) != 0) wrong = __LINE__;
        return;
    }
    if (how != EXITS) pthread_cancel(thread);
    pthread_join(thread, NULL);
}

static int take(int object, int index)
{
    if (object == A_SPINLOCK) return rtl_spin_lock(&spin);
    if (object == EXCLUSION) { rtl_stop_interrupts(); return 0; }
    return pthread_mutex_lock(&mutexes[index]);
}

static int give(int object, int index)
{
    if (object == A_SPINLOCK) return rtl_spin_unlock(&spin);
    if (object == EXCLUSION) { rtl_allow_interrupts(); return 0; }
    return pthread_mutex_unlock(&mutexes[index]);
}

/* Takes what it is to take, and ends with it. */
static void *holder(void *argument)
{
    int index, count = what == MANY_MUTEXES ? MANY : 1;
    if (how == AT_ONCE) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (index = 0; index < count; index++) if (take(what, index) != 0) wrong = __LINE__;
    sem_post(&taken);
    if (how == EXITS) pthread_exit(NULL);
    /* With interrupts disabled it would keep the conductor from running. */
    if (how == AT_ONCE && what != EXCLUSION) while (1) gethrtime();
    while (1) usleep(500);
    return 0;
}

/* Takes one after the other, in step with another taker. */
static void *taker(void *argument)
{
    int index, count = what == MANY_MUTEXES ? MANY : 1;
    for (index = 0; index < count; index++) {
        until(start + (hrtime_t)index * 20000);
        if (take(what, index) != 0) { wrong = __LINE__; continue; }
        if (__sync_add_and_fetch(&inside[index], 1) > 1) most++;
        rtl_delay(3000);
        __sync_sub_and_fetch(&inside[index], 1);
        if (give(what, index) != 0) wrong = __LINE__;
        else __sync_add_and_fetch(&got, 1);
    }
    return 0;
}

static void held_by_one_that_ends(void)
{
    int round, index;
    for (what = 0; what < WHATS; what++) for (how = 0; how < HOWS; how++) {
        most = wrong = 0;
        for (round = 0; round < ROUNDS && most + wrong == 0; round++) {
            pthread_t thread = begin(holder, 20, -1, 0), takers[TAKERS];
            int count = what == MANY_MUTEXES ? MANY : 1;
            sem_wait(&taken);
            end(thread);
            got = 0;
            for (index = 0; index < MANY; index++) inside[index] = 0;
            start = gethrtime() + 2000000;
            for (index = 0; index < TAKERS; index++) takers[index] = begin(taker, 20, index ? other_cpu : -1, 0);
            for (index = 0; index < TAKERS; index++) pthread_join(takers[index], NULL);
            if (got != TAKERS * count) wrong = __LINE__;
        }
        for (index = 0; index < MANY; index++) if (pthread_mutex_destroy(&mutexes[index]) != 0) wrong = __LINE__;
        say(hows[how], whats[what], most == 0 && wrong == 0);
    }
}

/* ---- what is waited for ---- */
static void cleanup(void *argument)
{
    held_in_cleanup = pthread_mutex_unlock(&mutexes[0]) == 0;
    cleaned++;
}

static void *semaphore_waiter(void *argument)
{
    pthread_cleanup_push(cleanup, 0);
    if (how == AT_ONCE) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    until(start + (hrtime_t)(long)argument);
    while (sem_wait(&semaphore) != 0) ;
    got++;
    pthread_cleanup_pop(0);
    return 0;
}

static void *condition_waiter(void *argument)
{
    pthread_cleanup_push(cleanup, 0);
    if (how == AT_ONCE) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_mutex_lock(&mutexes[0]);
    until(start + (hrtime_t)(long)argument);
    waiting++;
    pthread_cond_wait(&condition, &mutexes[0]);
    got++;
    pthread_mutex_unlock(&mutexes[0]);
    pthread_cleanup_pop(0);
    return 0;
}

/* A signal is nobody's who does not wait yet: whether so many do, however slow the machine is. */
static int wait_for_condition(int count)
{
    int are;
    pthread_mutex_lock(&mutexes[0]);
    are = waiting == count;
    pthread_mutex_unlock(&mutexes[0]);
    return are;
}

static void *mutex_waiter(void *argument)
{
    if (how == AT_ONCE) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    if (pthread_mutex_lock(&mutexes[0]) == 0) got++;
    pthread_testcancel();
    pthread_mutex_unlock(&mutexes[0]);
    return 0;
}

/* Deleted while it waits, or just after it was woken: what it was woken for is another's. */
static void waited_for_by_one_that_ends(int woken)
{
    const char *state = woken ? "woken and then %s" : "%s while it waits";
    char text[64];
    int round;
    for (how = 0; how < EXITS; how++) {
        sprintf(text, state, hows[how]);
        for (wrong = 0, round = 0; round < ROUNDS && wrong == 0; round++) {
            /* The first is the more urgent of the two, and neither runs before the conductor sleeps. */
            pthread_t first, second;
            got = 0; start = 0;
            first = begin(semaphore_waiter, 21, -1, 0);
            usleep(200);
            second = begin(semaphore_waiter, 20, -1, 0);
            usleep(200);
            if (woken) sem_post(&semaphore);
            end(first);
            if (!woken) sem_post(&semaphore);
            /* A cancelled one that was woken may have what it was woken for. */
            if (got == 0 && !EVENTUALLY(got == 1)) wrong = __LINE__;
            pthread_cancel(second);
            pthread_join(second, NULL);
            while (sem_trywait(&semaphore) == 0) wrong = __LINE__;
            if (sem_destroy(&semaphore) != 0) wrong = __LINE__;
        }
        say(text, "a semaphore", wrong == 0);
        for (wrong = 0, round = 0; round < ROUNDS && wrong == 0; round++) {
            pthread_t first, second;
            got = cleaned = held_in_cleanup = waiting = 0; start = 0;
            first = begin(condition_waiter, 21, -1, 0);
            usleep(200);
            second = begin(condition_waiter, 20, -1, 0);
            usleep(200);
            if (!EVENTUALLY(wait_for_condition(2))) wrong = __LINE__;
            if (woken) pthread_cond_signal(&condition);
            end(first);
            if (how != DELETED && cleaned && !held_in_cleanup) wrong = __LINE__;
            if (!woken) pthread_cond_signal(&condition);
            if (got == 0 && !EVENTUALLY(got == 1)) wrong = __LINE__;
            pthread_delete_np(second);
            if (pthread_cond_destroy(&condition) != 0) wrong = __LINE__;
            if (pthread_mutex_trylock(&mutexes[0]) != 0) wrong = __LINE__;
            else pthread_mutex_unlock(&mutexes[0]);
        }
        say(text, "a condition", wrong == 0);
        for (wrong = 0, round = 0; round < ROUNDS && wrong == 0; round++) {
            pthread_t first, second;
            got = 0;
            pthread_mutex_lock(&mutexes[0]);
            first = begin(mutex_waiter, 21, -1, 0);
            usleep(200);
            second = begin(mutex_waiter, 20, -1, 0);
            usleep(200);
            if (woken) pthread_mutex_unlock(&mutexes[0]);
            if (how == CANCELLED) { pthread_cancel(first); } else end(first);
            if (!woken) pthread_mutex_unlock(&mutexes[0]);
            if (how == CANCELLED) pthread_join(first, NULL);
            pthread_join(second, NULL);
            if (got < 1 || pthread_mutex_destroy(&mutexes[0]) != 0) wrong = __LINE__;
        }
        say(text, "a mutex", wrong == 0);
    }
}

/* Cancelled by a thread of another CPU at about the time at which it begins to wait, and not joined before it has ended. */
static void about_to_wait(void *(*waiter)(void *), const char *object)
{
    int round;
    for (how = CANCELLED; how <= AT_ONCE; how++) {
        char text[64];
        sprintf(text, "%s when about to wait", hows[how]);
        for (wrong = 0, round = 0; round < 4 * ROUNDS && wrong == 0; round++) {
            pthread_t thread;
            cleaned = 0;
            start = gethrtime() + 200000;
            thread = begin(waiter, 20, other_cpu, 0);
            until(start + (round % 40) * 250);
            pthread_cancel(thread);
            if (!EVENTUALLY(cleaned)) wrong = __LINE__;
            pthread_delete_np(thread);
        }
        say(text, object, wrong == 0);
    }
}

static void *sleeper(void *argument)
{
    pthread_cleanup_push(cleanup, 0);
    until(start);
    if ((long)argument) pthread_suspend_np(pthread_self());
    else pthread_wait_np();
    pthread_cleanup_pop(0);
    return 0;
}

static void *suspended(void *argument) { return sleeper((void *)1); }

/* Deleted in the midst of what takes locks of the runtime. */
static void *busy(void *argument)
{
    char bytes[64];
    while (1) {
        void *memory = kmalloc(100 + (gethrtime() & 4095), GFP_KERNEL);
        kfree(memory);
        rtf_create(9, 1000);
        rtf_put(9, bytes, sizeof bytes);
        rtf_get(9, bytes, sizeof bytes);
        rtf_destroy(9);
        kfree(kmalloc(20, GFP_KERNEL));
    }
    return 0;
}

static void deleted_anywhere(void)
{
    int round;
    for (wrong = 0, round = 0; round < 4 * ROUNDS && wrong == 0; round++) {
        pthread_t thread = begin(busy, 20, other_cpu, 0);
        until(gethrtime() + 100000 + round * 777);
        if (pthread_delete_np(thread) != 0) wrong = __LINE__;
        rtf_destroy(9);
        if (rtf_create(9, 1000) != 0) wrong = __LINE__;
        rtf_destroy(9);
        kfree(kmalloc(1000, GFP_KERNEL));
    }
    say("deleted anywhere", "memory and FIFOs", wrong == 0);
}

static void *conduct(void *argument)
{
    held_by_one_that_ends();
    waited_for_by_one_that_ends(0);
    waited_for_by_one_that_ends(1);
    about_to_wait(semaphore_waiter, "a semaphore");
    about_to_wait(condition_waiter, "a condition");
    about_to_wait(sleeper, "a release");
    about_to_wait(suspended, "a wake-up");
    deleted_anywhere();
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    int cpu;
    for (cpu = 0; cpu < 64; cpu++) if (rtl_cpu_exists(cpu)) other_cpu = cpu;
    sem_init(&taken, 0, 0);
    sem_init(&semaphore, 0, 0);
    conductor = begin(conduct, 30, -1, 0);
    return 0;
}

void cleanup_module(void)
{
    pthread_delete_np(conductor);
}
