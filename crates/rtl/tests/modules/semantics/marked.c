/* A thread that marks itself suspended goes on until it asks for scheduling, and sleeps there until it is woken. A
 * wake-up that comes before is not lost. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_sched.h>

static pthread_t sleeper, waker;
static volatile int stage = 0, slept = 0;

static void *sleep_marked(void *arg)
{
    pthread_t self = pthread_self();
    int turn;
    for (turn = 1; turn <= 3; turn++) {
        RTL_MARK_SUSPENDED(self);
        rtl_printf("marked, turn %d\n", turn);
        stage = turn;
        rtl_schedule();
        rtl_printf("woken %s\n", slept == turn ? "by the other" : "?");
    }
    RTL_MARK_SUSPENDED(self);
    RTL_MARK_READY(self);
    rtl_schedule();
    rtl_printf("not suspended by itself\n");
    rtl_printf("done\n");
    return 0;
}

static void *wake(void *arg)
{
    int turn;
    for (turn = 1; turn <= 3; turn++) {
        while (stage < turn) usleep(1000);
        usleep(5000);
        slept = turn;
        if (turn == 2) pthread_kill(sleeper, RTL_SIGNAL_WAKEUP);
        else pthread_wakeup_np(sleeper);
    }
    return 0;
}

int init_module(void)
{
    return pthread_create(&sleeper, 0, sleep_marked, 0) | pthread_create(&waker, 0, wake, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(sleeper);
    pthread_delete_np(waker);
}
