/* A producer posts, a consumer waits; then a wait that ends by time. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <semaphore.h>
#include <errno.h>

pthread_t producer, consumer;
sem_t items;

void *produce(void *arg)
{
    int i;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 1000000);
    for (i = 0; i < 5; i++) { pthread_wait_np(); sem_post(&items); }
    return 0;
}

void *consume(void *arg)
{
    struct timespec until;
    int i, value;
    for (i = 1; i <= 5; i++) { sem_wait(&items); rtl_printf("item %d\n", i); }
    sem_getvalue(&items, &value);
    rtl_printf("left %d\n", value);
    rtl_printf("trywait: %s\n", sem_trywait(&items) == -1 && errno == EAGAIN ? "EAGAIN" : "?");
    until = timespec_from_ns(gethrtime() + 2000000);
    rtl_printf("timedwait: %s\n", sem_timedwait(&items, &until) == -1 && errno == ETIMEDOUT ? "ETIMEDOUT" : "?");
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    sem_init(&items, 0, 0);
    return pthread_create(&consumer, NULL, consume, 0) | pthread_create(&producer, NULL, produce, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(producer);
    pthread_delete_np(consumer);
    sem_destroy(&items);
}
