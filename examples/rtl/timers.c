/* POSIX timers: one that expires in a rhythm, one that expires once, one of no thread, and what is refused. */
#include <rtl.h>
#include <time.h>
#include <signal.h>
#include <rtl_sched.h>
#include <pthread.h>
#include <errno.h>

pthread_t thread;
timer_t of_nobody;
volatile int ticks = 0, alarms = 0, outside = 0;

void on_tick(int number) { ticks++; }
void on_alarm(int number) { alarms++; }
void on_outside(int number) { outside++; }

static void handle(int number, void (*handler)(int))
{
    struct sigaction action;
    action.sa_handler = handler;
    action.sa_mask = 0;
    action.sa_flags = 0;
    sigaction(number, &action, NULL);
}

void *run(void *arg)
{
    struct sigevent event;
    struct itimerspec setting, left;
    timer_t rhythm, once;
    sigset_t none;

    sigemptyset(&none);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = RTL_SIGUSR1;
    rtl_printf("create: %d\n", timer_create(CLOCK_REALTIME, &event, &rhythm));
    event.sigev_signo = RTL_SIGUSR2;
    rtl_printf("create: %d\n", timer_create(CLOCK_REALTIME, &event, &once));
    event.sigev_signo = 99;
    rtl_printf("no signal: %s\n", timer_create(CLOCK_REALTIME, &event, &once) == -1 && errno == EINVAL ? "EINVAL" : "?");

    timer_gettime(rhythm, &left);
    rtl_printf("not set: %ld %ld\n", (long)left.it_value.tv_sec, left.it_value.tv_nsec);
    setting.it_interval = timespec_from_ns(2000000);
    setting.it_value = timespec_from_ns(gethrtime() + 3000000);
    rtl_printf("set: %d\n", timer_settime(rhythm, TIMER_ABSTIME, &setting, NULL));
    while (ticks < 5) sigsuspend(&none);
    timer_gettime(rhythm, &left);
    rtl_printf("interval: %ld\n", left.it_interval.tv_nsec);

    setting.it_interval = timespec_from_ns(0);
    setting.it_value = timespec_from_ns(1000000);
    timer_settime(once, 0, &setting, NULL);
    while (alarms < 1) sigsuspend(&none);
    timer_gettime(once, &left);
    rtl_printf("expired: %d, left %ld\n", alarms, left.it_value.tv_nsec);
    rtl_printf("overruns: %s\n", timer_getoverrun(once) == 0 ? "none" : "?");

    /* The first ends a sleep, as every signal does. */
    setting.it_value = timespec_from_ns(1000000);
    timer_settime(once, 0, &setting, NULL);
    rtl_printf("sleep: %s\n", timer_settime(rhythm, 0, &left, NULL) == 0 && usleep(5000000) == -1 && errno == EINTR ? "EINTR" : "?");

    while (!outside) usleep(1000);
    rtl_printf("delete: %d %d\n", timer_delete(rhythm), timer_delete(once));
    rtl_printf("again: %s\n", timer_delete(once) == -1 && errno == EINVAL ? "EINVAL" : "?");
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    struct sigevent event;
    struct itimerspec setting;
    handle(RTL_SIGUSR1, on_tick);
    handle(RTL_SIGUSR2, on_alarm);
    handle(RTL_SIGRTMIN, on_outside);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = RTL_SIGRTMIN;
    if (timer_create(CLOCK_REALTIME, &event, &of_nobody) != 0) return -1;
    setting.it_interval = timespec_from_ns(1000000);
    setting.it_value = timespec_from_ns(1000000);
    timer_settime(of_nobody, 0, &setting, NULL);
    return pthread_create(&thread, NULL, run, 0);
}

/* The timer of nobody is left to the end of the module. */
void cleanup_module(void)
{
    pthread_delete_np(thread);
}
