/* Spinlocks and disabled interrupts keep threads apart. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_spinlock.h>

pthread_t threads[3];
pthread_spinlock_t lock;
volatile int counter = 0, ended = 0;

void *count(void *arg)
{
    int i, read;
    rtl_irqstate_t state;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 300000);
    for (i = 0; i < 40; i++) {
        pthread_wait_np();
        if (i & 1) {
            rtl_no_interrupts(state);
            read = counter; rtl_delay(1000); counter = read + 1;
            rtl_restore_interrupts(state);
        } else {
            rtl_spin_lock_irqsave(&lock, state);
            read = counter; rtl_delay(1000); counter = read + 1;
            rtl_spin_unlock_irqrestore(&lock, state);
        }
    }
    rtl_stop_interrupts();
    ended++;
    rtl_allow_interrupts();
    return 0;
}

void *look(void *arg)
{
    pthread_make_periodic_np(pthread_self(), gethrtime(), 1000000);
    while (ended < 2) pthread_wait_np();
    rtl_printf("counted %d\n", counter);
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    pthread_spin_init(&lock, 0);
    return pthread_create(&threads[0], NULL, count, 0) | pthread_create(&threads[1], NULL, count, 0)
         | pthread_create(&threads[2], NULL, look, 0);
}

void cleanup_module(void)
{
    int i;
    for (i = 0; i < 3; i++) pthread_delete_np(threads[i]);
}
