/* Barriers: all go on together, one of them is told so, round after round; and the mistakes. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_barrier.h>
#include <errno.h>

#define THREADS 3
#define ROUNDS 50

static pthread_t threads[THREADS], late;
static pthread_barrier_t barrier, two;
static volatile int last[ROUNDS], arrived[ROUNDS], early = 0;

static void *run(void *arg)
{
    int round;
    for (round = 0; round < ROUNDS; round++) {
        int answer;
        if ((round + (int)(long)arg) % THREADS == 0) usleep(200);
        __sync_fetch_and_add(&arrived[round], 1);
        answer = pthread_barrier_wait(&barrier);
        if (arrived[round] != THREADS + 1) early++;
        if (answer == PTHREAD_BARRIER_SERIAL_THREAD) __sync_fetch_and_add(&last[round], 1);
        else if (answer != 0) early++;
    }
    return 0;
}

static void *wait_alone(void *arg)
{
    pthread_barrier_wait(&two);
    return 0;
}

int init_module(void)
{
    pthread_barrierattr_t attributes;
    long number;
    int round, wrong = 0;
    pthread_barrierattr_init(&attributes);
    rtl_printf("of nobody: %s\n", pthread_barrier_init(&barrier, 0, 0) == EINVAL ? "EINVAL" : "?");
    rtl_printf("init: %d\n", pthread_barrier_init(&barrier, &attributes, THREADS + 1));
    rtl_printf("init: %d\n", pthread_barrier_init(&two, 0, 2));
    pthread_barrierattr_destroy(&attributes);
    for (number = 0; number < THREADS; number++)
        if (pthread_create(&threads[number], 0, run, (void *)number)) return -1;
    /* Linux is one of them. */
    run((void *)number);
    for (number = 0; number < THREADS; number++) pthread_join(threads[number], 0);
    for (round = 0; round < ROUNDS; round++) wrong += last[round] != 1;
    rtl_printf("rounds %d, of which without one that came last %d, early %d\n", ROUNDS, wrong, early);
    rtl_printf("destroy: %d\n", pthread_barrier_destroy(&barrier));
    pthread_create(&late, 0, wait_alone, 0);
    while (pthread_barrier_destroy(&two) == 0) usleep(1000);
    rtl_printf("waited for: %s\n", pthread_barrier_destroy(&two) == EBUSY ? "EBUSY" : "?");
    pthread_barrier_wait(&two);
    rtl_printf("join: %d\n", pthread_join(late, 0));
    rtl_printf("destroy: %d\n", pthread_barrier_destroy(&two));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void) {}
