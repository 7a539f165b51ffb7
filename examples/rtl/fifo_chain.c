/* FIFOs in a chain: the handler of each, which runs in the thread that puts, passes on to the next what it has made of
 * it. A thread at the end is woken by the last handler. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <semaphore.h>
#include <rtl_fifo.h>
#include <linux/module.h>

#define RAW 20
#define EVEN 21
#define SUMS 22
#define SAMPLES 24

static pthread_t source, sink;
static sem_t arrived;
static pthread_t ran_handler;

/* Half of the samples go on. A handler is called for its own gets too: it does not begin again then. */
static int filter(unsigned fifo)
{
    static int inside;
    int sample;
    if (inside) return 0;
    inside = 1;
    ran_handler = pthread_self();
    while (rtf_get(fifo, &sample, sizeof sample) == sizeof sample)
        if (sample % 2 == 0) rtf_put(EVEN, &sample, sizeof sample);
    inside = 0;
    return 0;
}

/* The sum of each four. */
static int add(unsigned fifo)
{
    static int count, sum, inside;
    int sample;
    if (inside) return 0;
    inside = 1;
    while (rtf_get(fifo, &sample, sizeof sample) == sizeof sample) {
        sum += sample;
        if (++count % 4) continue;
        rtf_put(SUMS, &sum, sizeof sum);
        sum = 0;
    }
    inside = 0;
    return 0;
}

/* A get that takes the last one calls it too. */
static int tell(unsigned fifo)
{
    return rtf_isempty(fifo) ? 0 : sem_post(&arrived);
}

static void *produce(void *arg)
{
    int sample;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 500000);
    for (sample = 0; sample < SAMPLES; sample++) {
        pthread_wait_np();
        rtf_put(RAW, &sample, sizeof sample);
    }
    rtl_printf("the handlers ran in %s\n", ran_handler == pthread_self() ? "the thread that puts" : "?");
    return 0;
}

static void *consume(void *arg)
{
    int sum, sums = 0;
    while (sums < SAMPLES / 2 / 4) {
        sem_wait(&arrived);
        if (rtf_get(SUMS, &sum, sizeof sum) != sizeof sum) continue;
        rtl_printf("sum %d\n", sum);
        sums++;
    }
    pthread_join(source, NULL);
    rtl_printf("left: %d %d %d\n", rtf_isempty(RAW), rtf_isempty(EVEN), rtf_isempty(SUMS));
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    sem_init(&arrived, 0, 0);
    if (rtf_create(RAW, 64) || rtf_create(EVEN, 64) || rtf_create(SUMS, 64)) return -1;
    if (rtf_create_rt_handler(RAW, filter) || rtf_create_rt_handler(EVEN, add)) return -1;
    if (rtf_create_rt_handler(SUMS, tell)) return -1;
    return pthread_create(&source, NULL, produce, 0) || pthread_create(&sink, NULL, consume, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(sink);
    rtf_destroy(RAW);
    rtf_destroy(EVEN);
    rtf_destroy(SUMS);
    sem_destroy(&arrived);
}
