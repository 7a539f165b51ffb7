/* Threads end by returning, by pthread_exit, by being cancelled and by being deleted; cleanup handlers run. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>

pthread_t threads[4], parent;

void say(void *what) { rtl_printf("cleanup: %s\n", (char *)what); }

void *returns(void *arg) { return (void *)1; }

void *exits(void *arg)
{
    pthread_cleanup_push(say, "exit");
    pthread_exit((void *)2);
    pthread_cleanup_pop(0);
    return 0;
}

void *is_cancelled(void *arg)
{
    pthread_cleanup_push(say, "cancel");
    while (1) usleep(1000);
    pthread_cleanup_pop(0);
    return 0;
}

void *spins(void *arg)
{
    volatile long n = 0;
    struct sched_param p;
    p.sched_priority = 0;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    while (1) n++;
    return 0;
}

void *make(void *arg)
{
    void *value = 0;
    struct sched_param p;
    p.sched_priority = 20;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    pthread_create(&threads[0], NULL, returns, 0);
    pthread_create(&threads[1], NULL, exits, 0);
    pthread_create(&threads[2], NULL, is_cancelled, 0);
    pthread_join(threads[0], &value);
    rtl_printf("returned %d\n", (int)value);
    pthread_join(threads[1], &value);
    rtl_printf("exited with %d\n", (int)value);
    usleep(5000);
    pthread_cancel(threads[2]);
    pthread_join(threads[2], &value);
    rtl_printf("cancelled: %d\n", value == PTHREAD_CANCELED);
    pthread_create(&threads[3], NULL, spins, 0);
    usleep(2000);
    rtl_printf("deleted: %d\n", pthread_delete_np(threads[3]));
    rtl_printf("again: %d\n", pthread_delete_np(threads[3]) != 0);
    rtl_printf("done\n");
    return 0;
}

int init_module(void) { return pthread_create(&parent, NULL, make, 0); }
void cleanup_module(void) { pthread_delete_np(parent); }
