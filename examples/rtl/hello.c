/* A thread with a period prints a line in each. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>

pthread_t thread;

void *start_routine(void *arg)
{
    int i;
    struct sched_param p;
    p.sched_priority = 1;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    pthread_make_periodic_np(pthread_self(), gethrtime(), 5000000);
    for (i = 1; i <= 5; i++) {
        pthread_wait_np();
        rtl_printf("I'm here; period %d; my arg is %x\n", i, (unsigned)arg);
    }
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    return pthread_create(&thread, NULL, start_routine, (void *)0x1a);
}

void cleanup_module(void)
{
    pthread_delete_np(thread);
}
