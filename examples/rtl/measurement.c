/* How late a periodic thread runs: the least and the greatest of so many periods, in a FIFO and in the log. */
#include <rtl.h>
#include <rtl_fifo.h>
#include <time.h>
#include <pthread.h>

struct sample { hrtime_t min; hrtime_t max; };

pthread_t thread;

void *measure(void *arg)
{
    struct sample samp = { HRTIME_INFINITY, -HRTIME_INFINITY };
    hrtime_t expected, diff;
    struct sched_param p;
    int i;
    p.sched_priority = 80;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    rtl_setclockmode(CLOCK_REALTIME, RTL_CLOCK_MODE_PERIODIC, 1000000);
    expected = clock_gethrtime(CLOCK_REALTIME) + 2 * 1000000;
    pthread_make_periodic_np(pthread_self(), expected, 1000000);
    for (i = 0; i < 100; i++) {
        pthread_wait_np();
        diff = clock_gethrtime(CLOCK_MONOTONIC) - expected;
        if (diff < samp.min) samp.min = diff;
        if (diff > samp.max) samp.max = diff;
        expected += 1000000;
    }
    rtf_put(0, &samp, sizeof(samp));
    rtl_printf("%d periods, min %ld ns, max %ld ns\n", i, (long)samp.min, (long)samp.max);
    rtl_printf("%s\n", samp.min >= 0 ? "none early" : "early");
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    if (rtf_create(0, 4000) < 0) return -1;
    return pthread_create(&thread, NULL, measure, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(thread);
    rtf_destroy(0);
}
