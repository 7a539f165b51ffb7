/* Two threads count under a mutex; then what a mutex that is held answers. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <errno.h>

pthread_t threads[3];
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
volatile int counter = 0;
volatile int ended = 0;

void *count(void *arg)
{
    int i, read;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 200000);
    for (i = 0; i < 50; i++) {
        pthread_wait_np();
        pthread_mutex_lock(&mutex);
        read = counter;
        rtl_delay(2000);
        counter = read + 1;
        pthread_mutex_unlock(&mutex);
    }
    ended++;
    return 0;
}

void *look(void *arg)
{
    struct timespec until;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 1000000);
    while (ended < 2) pthread_wait_np();
    rtl_printf("counted %d\n", counter);
    rtl_printf("unlock of a free one: %s\n", pthread_mutex_unlock(&mutex) == EPERM ? "EPERM" : "?");
    pthread_mutex_lock(&mutex);
    rtl_printf("trylock: %s\n", pthread_mutex_trylock(&mutex) == EBUSY ? "EBUSY" : "?");
    until = timespec_from_ns(gethrtime() + 1000000);
    rtl_printf("timedlock of one's own: %s\n", pthread_mutex_timedlock(&mutex, &until) == EDEADLK ? "EDEADLK" : "?");
    rtl_printf("destroy: %s\n", pthread_mutex_destroy(&mutex) == EBUSY ? "EBUSY" : "?");
    pthread_mutex_unlock(&mutex);
    rtl_printf("destroy again: %d\n", pthread_mutex_destroy(&mutex));
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    return pthread_create(&threads[0], NULL, count, 0) | pthread_create(&threads[1], NULL, count, 0)
         | pthread_create(&threads[2], NULL, look, 0);
}

void cleanup_module(void)
{
    int i;
    for (i = 0; i < 3; i++) pthread_delete_np(threads[i]);
}
