/* Attributes of threads, and priorities: a more urgent thread goes before one that is ready as well. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <errno.h>

pthread_t threads[3], parent;
pthread_attr_t attr;

void *run(void *arg)
{
    struct sched_param p;
    int policy;
    pthread_getschedparam(pthread_self(), &policy, &p);
    rtl_printf("thread of priority %d\n", p.sched_priority);
    return 0;
}

void *make(void *arg)
{
    struct sched_param p;
    int i, cpu;
    size_t size;
    p.sched_priority = 50;
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    pthread_attr_init(&attr);
    attr.stack_size = 20000;
    pthread_attr_getstacksize(&attr, &size);
    rtl_printf("stack %d\n", (int)size);
    cpu = rtl_getcpuid();
    rtl_printf("cpu: %d %d\n", pthread_attr_setcpu_np(&attr, cpu), pthread_attr_setcpu_np(&attr, 1000) == EINVAL);
    pthread_attr_setfp_np(&attr, 1);
    for (i = 0; i < 3; i++) {
        p.sched_priority = 10 + i * 10;
        pthread_attr_setschedparam(&attr, &p);
        pthread_create(&threads[i], &attr, run, 0);
    }
    p.sched_priority = -1;
    rtl_printf("priority -1: %d\n", pthread_attr_setschedparam(&attr, &p) == EINVAL);
    for (i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    p.sched_priority = 60;
    pthread_attr_setschedparam(&attr, &p);
    pthread_create(&threads[0], &attr, run, 0);
    rtl_printf("join of a detached one: %d\n", pthread_join(threads[0], NULL) != 0);
    rtl_printf("done\n");
    return 0;
}

int init_module(void) { return pthread_create(&parent, NULL, make, 0); }
void cleanup_module(void) { pthread_delete_np(parent); }
