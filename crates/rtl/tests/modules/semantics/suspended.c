/* A thread that another one suspends runs its signals' handlers, and stays suspended until it is woken. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_sched.h>
#include <signal.h>

static pthread_t worker, boss;
static volatile int turns = 0, handled = 0, nested = 0, within = 0;

static void on_second(int number)
{
    nested = within;
    handled++;
}

static void on_first(int number)
{
    within = 1;
    pthread_kill(pthread_self(), RTL_SIGUSR2);
    within = 0;
    handled++;
}

static void *work(void *arg)
{
    while (1) {
        turns++;
        usleep(500);
    }
    return 0;
}

/* Whether the worker does anything. */
static int moves(void)
{
    int before;
    usleep(5000);
    before = turns;
    usleep(20000);
    return turns != before;
}

static void *lead(void *arg)
{
    sigset_t pending = 0;
    while (turns < 3) usleep(1000);
    rtl_printf("suspend: %d\n", pthread_suspend_np(worker));
    rtl_printf("it %s\n", moves() ? "?" : "rests");
    rtl_printf("signal: %d\n", pthread_kill(worker, RTL_SIGUSR1));
    while (handled < 2) usleep(1000);
    rtl_printf("the mask of the first handler %s\n", nested ? "?" : "kept the second waiting");
    rtl_printf("it %s\n", moves() ? "?" : "rests");
    rtl_printf("suspend again: %d\n", pthread_suspend_np(worker));
    rtl_printf("wake up: %d\n", pthread_wakeup_np(worker));
    rtl_printf("it %s\n", moves() ? "goes on" : "?");
    rtl_printf("suspend by signal: %d\n", pthread_kill(worker, RTL_SIGNAL_SUSPEND));
    rtl_printf("it %s\n", moves() ? "?" : "rests");
    rtl_printf("wake up by signal: %d\n", pthread_kill(worker, RTL_SIGNAL_WAKEUP));
    rtl_printf("it %s\n", moves() ? "goes on" : "?");
    rtl_printf("pending here: %s\n", sigpending(&pending) == 0 && pending == 0 ? "none" : "?");
    pthread_suspend_np(worker);
    rtl_printf("delete: %d\n", pthread_delete_np(worker));
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    struct sigaction action;
    struct sched_param param = { 50 };
    action.sa_handler = on_first;
    action.sa_flags = 0;
    action.sa_mask = 0;
    sigaddset(&action.sa_mask, RTL_SIGUSR2);
    sigaction(RTL_SIGUSR1, &action, 0);
    action.sa_handler = on_second;
    sigaction(RTL_SIGUSR2, &action, 0);
    if (pthread_create(&worker, 0, work, 0) || pthread_create(&boss, 0, lead, 0)) return -1;
    return pthread_setschedparam(boss, SCHED_FIFO, &param);
}

void cleanup_module(void)
{
    pthread_delete_np(boss);
}
