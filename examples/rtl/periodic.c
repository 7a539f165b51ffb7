/* Three periodic threads; releases never skip, so each has as many periods as it asked for. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>

pthread_t threads[3];
volatile int ended = 0;

void *run(void *arg)
{
    int own = (int)arg, i;
    rtl_irqstate_t state;
    hrtime_t first = gethrtime() + 1000000, period = (own + 1) * 500000LL, early = 0;
    pthread_make_periodic_np(pthread_self(), first, period);
    for (i = 0; i < 30; i++) {
        pthread_wait_np();
        if (gethrtime() < first + i * period) early++;
    }
    rtl_no_interrupts(state);
    ended++;
    rtl_restore_interrupts(state);
    if (own == 2) {
        while (ended < 3) pthread_wait_np();
        rtl_printf("%d threads, early %d\n", ended, (int)early);
        rtl_printf("done\n");
    }
    return 0;
}

int init_module(void)
{
    int i, error = 0;
    for (i = 0; i < 3; i++) error |= pthread_create(&threads[i], NULL, run, (void *)i);
    return error;
}

void cleanup_module(void)
{
    int i;
    for (i = 0; i < 3; i++) pthread_delete_np(threads[i]);
}
