/* A periodic thread that counts, puts each number into a FIFO, and can be told which FIFO. In the style of the
 * examples that came with RTLinux. */
#include <rtl.h>
#include <time.h>
#include <rtl_sched.h>
#include <rtl_fifo.h>
#include <pthread.h>
#include <linux/module.h>

static int fifo = 0;
static int period = 2000000;
MODULE_PARM(fifo, "i");
MODULE_PARM(period, "i");

pthread_t thread;

void *start_routine(void *arg)
{
    struct sched_param p;
    char line[32];
    int i = 0;

    p.sched_priority = 10;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    pthread_make_periodic_np(pthread_self(), gethrtime(), period);
    while (1) {
        pthread_wait_np();
        i++;
        sprintf(line, "%d\n", i);
        rtf_put(fifo, line, strlen(line));
        if (i == 5) rtl_printf("counted to %d\n", i);
    }
    return 0;
}

int init_module(void)
{
    int error;
    rtf_destroy(fifo);
    error = rtf_create(fifo, 4000);
    if (error < 0) return error;
    return pthread_create(&thread, NULL, start_routine, 0);
}

void cleanup_module(void)
{
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    rtf_destroy(fifo);
}
