/* A task that walks over its memory, a page in each period and round in two seconds, as what is needed seldom is touched.
 * It says in a FIFO how many page faults it has had since the first. */
#include <rtl.h>
#include <rtl_sched.h>
#include <rtl_fifo.h>
#include <time.h>
#include <pthread.h>
#include <linux/module.h>
#include <sys/resource.h>

#define FIFO 1
#define PAGE 4096
#define PAGES 2048
#define THIS_THREAD 1

struct message { unsigned long number; unsigned long minor; unsigned long major; };

pthread_t thread;
static volatile char memory[PAGES * PAGE];

static void *run(void *argument)
{
    struct message message = { 0, 0, 0 };
    struct rusage before, now;
    struct sched_param p;
    p.sched_priority = 80;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    pthread_make_periodic_np(pthread_self(), gethrtime(), 1000000);
    getrusage(THIS_THREAD, &before);
    while (1) {
        pthread_wait_np();
        memory[message.number % PAGES * PAGE]++;
        getrusage(THIS_THREAD, &now);
        message.number++;
        message.minor = now.ru_minflt - before.ru_minflt;
        message.major = now.ru_majflt - before.ru_majflt;
        rtf_put(FIFO, &message, sizeof(message));
    }
    return 0;
}

int init_module(void)
{
    int error = rtf_create(FIFO, 65536);
    if (error < 0) return error;
    return pthread_create(&thread, NULL, run, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(thread);
    rtf_destroy(FIFO);
}
