/* A watchdog: a worker reports in each period. One that does not is woken up, and ended where it still does not; what it
 * held is free again. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <semaphore.h>
#include <rtl_sched.h>
#include <errno.h>

#define PATIENCE 100000000LL

static pthread_t worker, watchdog;
static pthread_mutex_t mutex, tool;
static pthread_cond_t reported;
static sem_t never;
static int reports = 0, expected = 0;

static void put_away(void *name)
{
    rtl_printf("the worker puts away its %s\n", (char *)name);
    pthread_mutex_unlock(&tool);
}

static void report(void)
{
    pthread_mutex_lock(&mutex);
    reports++;
    pthread_cond_signal(&reported);
    pthread_mutex_unlock(&mutex);
}

static void *work(void *arg)
{
    int turn;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 2000000);
    for (turn = 0; turn < 5; turn++) {
        pthread_wait_np();
        report();
    }
    /* It forgets itself. */
    pthread_suspend_np(pthread_self());
    rtl_printf("the worker was woken up\n");
    report();
    /* It waits for what never comes. */
    pthread_mutex_lock(&tool);
    pthread_cleanup_push(put_away, "tool");
    sem_wait(&never);
    rtl_printf("?\n");
    pthread_cleanup_pop(0);
    return 0;
}

/* Whether the worker has reported in time. */
static int in_time(void)
{
    int error = 0;
    pthread_mutex_lock(&mutex);
    expected++;
    while (reports < expected && error == 0)
        error = pthread_cond_timedwait(&reported, &mutex, hrt2ts(clock_gethrtime(CLOCK_REALTIME) + PATIENCE));
    if (error) expected--;
    pthread_mutex_unlock(&mutex);
    if (error && error != ETIMEDOUT) rtl_printf("?\n");
    return error == 0;
}

static void *watch(void *arg)
{
    void *result = 0;
    int good = 0;
    while (in_time()) good++;
    rtl_printf("%d reports, then none\n", good);
    pthread_kill(worker, RTL_SIGNAL_WAKEUP);
    rtl_printf("after the wake-up: %s\n", in_time() ? "a report" : "?");
    rtl_printf("again: %s\n", in_time() ? "?" : "none");
    rtl_printf("its tool: %s\n", pthread_mutex_trylock(&tool) == EBUSY ? "taken" : "?");
    pthread_cancel(worker);
    rtl_printf("join: %d\n", pthread_join(worker, &result));
    rtl_printf("result: %s\n", result == PTHREAD_CANCELED ? "cancelled" : "?");
    rtl_printf("its tool: %s\n", pthread_mutex_trylock(&tool) == 0 ? "free" : "?");
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    struct sched_param param;
    pthread_attr_t attr;
    pthread_mutex_init(&mutex, NULL);
    pthread_mutex_init(&tool, NULL);
    pthread_cond_init(&reported, NULL);
    sem_init(&never, 0, 0);
    pthread_attr_init(&attr);
    param.sched_priority = 20;
    pthread_attr_setschedparam(&attr, &param);
    if (pthread_create(&worker, NULL, work, 0)) return -1;
    return pthread_create(&watchdog, &attr, watch, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(watchdog);
    sem_destroy(&never);
    pthread_cond_destroy(&reported);
    pthread_mutex_destroy(&mutex);
    pthread_mutex_destroy(&tool);
}
