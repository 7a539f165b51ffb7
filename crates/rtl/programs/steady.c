/* A task that must keep its periods: it numbers each, with a check, in a FIFO, and holds shared memory. With `late` it is
 * at fault itself: in each so-manieth period it computes for longer than a period. */
#include <rtl.h>
#include <rtl_sched.h>
#include <rtl_fifo.h>
#include <time.h>
#include <pthread.h>
#include <mbuff.h>
#include <linux/module.h>

static int fifo = 1;
static int late = 0;
static char *memory = "steady";
MODULE_PARM(fifo, "i");
MODULE_PARM(late, "i");
MODULE_PARM(memory, "s");

struct message { unsigned long number; unsigned long check; };

pthread_t thread;
static void *shared;

static void *run(void *argument)
{
    struct message message = { 0, 0 };
    struct sched_param p;
    p.sched_priority = 80;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    pthread_make_periodic_np(pthread_self(), gethrtime(), 1000000);
    while (1) {
        pthread_wait_np();
        message.number++;
        message.check = ~message.number;
        rtf_put(fifo, &message, sizeof(message));
        *(volatile unsigned long *)shared = message.number;
        if (late && message.number % late == 0) {
            hrtime_t until = gethrtime() + 2500000;
            while (gethrtime() < until);
        }
    }
    return 0;
}

int init_module(void)
{
    int error = rtf_create(fifo, 65536);
    if (error < 0) return error;
    shared = mbuff_alloc(memory, 4096);
    if (!shared) return -12;
    return pthread_create(&thread, NULL, run, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(thread);
    mbuff_free(memory, shared);
    rtf_destroy(fifo);
}
