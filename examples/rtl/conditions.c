/* Threads take turns by a condition variable. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <errno.h>

pthread_t threads[2];
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int turn = 0;

void *take_turns(void *arg)
{
    int own = (int)arg, i;
    struct timespec until;
    for (i = 1; i <= 4; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != own) pthread_cond_wait(&changed, &mutex);
        rtl_printf("thread %d, turn %d\n", own, i);
        turn = !own;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    if (own == 1) {
        pthread_mutex_lock(&mutex);
        until = timespec_from_ns(gethrtime() + 2000000);
        rtl_printf("nobody comes: %s\n", pthread_cond_timedwait(&changed, &mutex, &until) == ETIMEDOUT ? "ETIMEDOUT" : "?");
        pthread_mutex_unlock(&mutex);
        rtl_printf("done\n");
    }
    return 0;
}

int init_module(void)
{
    return pthread_create(&threads[0], NULL, take_turns, (void *)0)
         | pthread_create(&threads[1], NULL, take_turns, (void *)1);
}

void cleanup_module(void)
{
    pthread_delete_np(threads[0]);
    pthread_delete_np(threads[1]);
}
