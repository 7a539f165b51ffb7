/* Rules of the manual that no declaration says: one scale of time, priorities, waits without a period or under a mutex. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <signal.h>

static pthread_t lead, waiter, locker, periodic;
static pthread_mutex_t mutex;
static struct timespec *of_waiter;
static volatile int passed = 0, asks = 0, got = 0, handled = 0, periods = 0;

static void handler(int number) { handled++; }

static void *wait_for_wakeup(void *arg)
{
    of_waiter = hrt2ts(2500000000LL);
    pthread_wait_np();
    passed = 1;
    return 0;
}

static void *lock(void *arg)
{
    asks = 1;
    pthread_mutex_lock(&mutex);
    got = 1;
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void *count(void *arg)
{
    while (periods < 3) {
        pthread_wait_np();
        periods++;
    }
    return 0;
}

static void *ask(void *arg)
{
    struct sched_param param;
    struct timespec *own;
    hrtime_t first = clock_gethrtime(CLOCK_REALTIME), second = clock_gethrtime(CLOCK_MONOTONIC);
    rtl_printf("clocks: %s\n", first <= second && second <= clock_gethrtime(CLOCK_REALTIME) ? "one scale" : "?");

    rtl_printf("priorities: %d to %d\n", sched_get_priority_min(SCHED_FIFO), sched_get_priority_max(SCHED_FIFO));
    param.sched_priority = sched_get_priority_max(SCHED_FIFO);
    rtl_printf("the highest: %d\n", pthread_setschedparam(pthread_self(), SCHED_FIFO, &param));
    param.sched_priority = sched_get_priority_max(SCHED_FIFO) + 1;
    rtl_printf("above: %s\n", pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) ? "refused" : "?");
    param.sched_priority = 0;
    rtl_printf("the lowest: %d\n", pthread_setschedparam(pthread_self(), SCHED_FIFO, &param));

    own = hrt2ts(1500000000LL);
    usleep(20000);
    rtl_printf("time: %ld %ld %s\n", (long) own->tv_sec, (long) own->tv_nsec,
               of_waiter && of_waiter != own && of_waiter->tv_sec == 2 ? "each thread its own" : "?");
    rtl_printf("without a period it %s\n", passed ? "?" : "waits");
    rtl_printf("wake up: %d\n", pthread_wakeup_np(waiter));
    pthread_join(waiter, 0);
    rtl_printf("then it %s\n", passed ? "goes on" : "?");

    while (!asks) usleep(1000);
    usleep(5000);
    pthread_kill(locker, RTL_SIGUSR1);
    while (!handled) usleep(1000);
    usleep(5000);
    rtl_printf("the handler ran, and the lock is %s\n", got ? "?" : "waited for");
    pthread_mutex_unlock(&mutex);
    pthread_join(locker, 0);
    rtl_printf("then it is %s\n", got && handled == 1 ? "taken" : "?");

    pthread_join(periodic, 0);
    rtl_printf("periods: %d\n", periods);
    rtl_printf("done\n");
    return 0;
}

static void *begin(void *arg)
{
    pthread_mutex_lock(&mutex);
    pthread_create(&locker, 0, lock, 0);
    return ask(arg);
}

int init_module(void)
{
    struct sigaction action;
    action.sa_handler = handler;
    action.sa_mask = 0;
    action.sa_flags = 0;
    sigaction(RTL_SIGUSR1, &action, 0);
    pthread_mutex_init(&mutex, 0);
    if (pthread_create(&periodic, 0, count, 0)) return -1;
    if (pthread_make_periodic_np(periodic, gethrtime() + 1000000, 2000000)) return -2;
    return pthread_create(&waiter, 0, wait_for_wakeup, 0) | pthread_create(&lead, 0, begin, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(lead);
}
