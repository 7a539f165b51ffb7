/* A thread that suspends itself is woken up by another, three times. */
#include <rtl.h>
#include <time.h>
#include <rtl_sched.h>
#include <pthread.h>

pthread_t sleeper, waker;
volatile int asleep = 0;

void *sleep_often(void *arg)
{
    int i;
    for (i = 1; i <= 3; i++) {
        asleep = i;
        pthread_suspend_np(pthread_self());
        rtl_printf("woken up %d\n", i);
    }
    rtl_printf("done\n");
    return 0;
}

void *wake_up(void *arg)
{
    int i;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 2000000);
    for (i = 1; i <= 3; i++) {
        while (asleep < i) pthread_wait_np();
        pthread_wait_np();
        rtl_printf("waking up %d\n", i);
        pthread_wakeup_np(sleeper);
    }
    return 0;
}

int init_module(void)
{
    pthread_attr_t attr;
    struct sched_param p;
    pthread_attr_init(&attr);
    p.sched_priority = 3;
    pthread_attr_setschedparam(&attr, &p);
    return pthread_create(&sleeper, NULL, sleep_often, 0) | pthread_create(&waker, &attr, wake_up, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(sleeper);
    pthread_delete_np(waker);
}
