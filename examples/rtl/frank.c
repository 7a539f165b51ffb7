/* Two periodic threads write to FIFOs of their own. A process starts and stops them by commands in a third FIFO, whose
 * handler passes each on to the thread that it is for. */
#include <rtl.h>
#include <rtl_fifo.h>
#include <time.h>
#include <rtl_sched.h>
#include <pthread.h>

struct command { int start; int thread; int period; };

pthread_t threads[2];
static char *text[2] = { "Frank ", "Zappa " };

void *thread_code(void *t)
{
    int fifo = (int)t, count = 0;
    struct command c;
    while (1) {
        pthread_wait_np();
        if (rtf_get(fifo + 4, &c, sizeof(c)) == sizeof(c)) {
            if (!c.start) { rtl_printf("thread %d wrote %d times\n", fifo, count); break; }
            rtl_printf("thread %d starts\n", fifo);
            pthread_make_periodic_np(pthread_self(), gethrtime(), c.period * 1000LL);
        } else if (count < 3) {
            rtf_put(fifo, text[fifo - 1], 6);
            count++;
        }
    }
    if (fifo == 2) rtl_printf("done\n");
    return 0;
}

int my_handler(unsigned int fifo)
{
    struct command c;
    while (rtf_get(3, &c, sizeof(c)) == sizeof(c)) {
        rtf_put(c.thread + 4, &c, sizeof(c));
        pthread_wakeup_np(threads[c.thread - 1]);
    }
    return 0;
}

int init_module(void)
{
    int i, error = 0;
    for (i = 1; i <= 6; i++) if (i != 4) error |= rtf_create(i, 4000);
    for (i = 0; i < 2; i++) {
        pthread_attr_t attr;
        struct sched_param p;
        pthread_attr_init(&attr);
        p.sched_priority = 4 + i;
        pthread_attr_setschedparam(&attr, &p);
        error |= pthread_create(&threads[i], &attr, thread_code, (void *)(i + 1));
    }
    error |= rtf_create_handler(3, &my_handler);
    return error;
}

void cleanup_module(void)
{
    int i;
    for (i = 1; i <= 6; i++) if (i != 4) rtf_destroy(i);
    for (i = 0; i < 2; i++) { pthread_cancel(threads[i]); pthread_join(threads[i], NULL); }
}
