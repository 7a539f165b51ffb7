/* A timer that `init_module` has created tells the thread that sets it. Clocks that are none are refused. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <signal.h>
#include <errno.h>

static pthread_t thread;
static timer_t timer, plain;
static volatile int rings = 0;
static pthread_t rung;

static void ring(int number)
{
    rings++;
    rung = pthread_self();
}

static void *run(void *arg)
{
    struct itimerspec setting = { { 0, 0 }, { 0, 2000000 } };
    struct timespec long_time = { 600, 0 };
    sigset_t none = 0;
    int turn;
    rtl_printf("set: %d\n", timer_settime(timer, 0, &setting, 0));
    rtl_printf("sleep: %s\n", nanosleep(&long_time, 0) == -1 && errno == EINTR ? "EINTR" : "?");
    rtl_printf("rung by %s\n", rung == pthread_self() && rings == 1 ? "this thread" : "?");
    setting.it_interval.tv_nsec = 2000000;
    timer_settime(timer, 0, &setting, 0);
    for (turn = 0; turn < 3; turn++) sigsuspend(&none);
    rtl_printf("rung %s\n", rings >= 4 ? "again" : "?");
    rtl_printf("delete: %d\n", timer_delete(timer));
    setting.it_interval.tv_nsec = 0;
    long_time.tv_sec = 0;
    long_time.tv_nsec = 20000000;
    rtl_printf("of no event: %d\n", timer_settime(plain, 0, &setting, 0));
    rtl_printf("sleep: %d\n", nanosleep(&long_time, 0));
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    struct sigevent event;
    struct sigaction action;
    action.sa_handler = ring;
    action.sa_mask = 0;
    action.sa_flags = 0;
    sigaction(RTL_SIGRTMIN, &action, 0);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = RTL_SIGRTMIN;
    rtl_printf("no clock: %s\n", timer_create(99999, &event, &timer) == -1 && errno == EINVAL ? "EINVAL" : "?");
    rtl_printf("no clock: %s\n", rtl_setclockmode((clockid_t)99999, 2, 0) == -EINVAL ? "EINVAL" : "?");
    if (timer_create(CLOCK_REALTIME, &event, &timer) || timer_create(CLOCK_MONOTONIC, 0, &plain)) return -1;
    return pthread_create(&thread, 0, run, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(thread);
}
