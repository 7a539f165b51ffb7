/* Signals between threads: a handler, a blocked signal, a wait for one, and the signals that wake up and suspend. */
#include <rtl.h>
#include <time.h>
#include <rtl_sched.h>
#include <signal.h>
#include <pthread.h>

pthread_t receiver, sender;
volatile int handled = 0, step = 0;

void handler(int sig)
{
    handled++;
    rtl_printf("handler of signal %d, call %d\n", sig == RTL_SIGUSR1 ? 1 : 2, handled);
}

void *receive(void *arg)
{
    struct sigaction sa;
    sigset_t set;
    sa.sa_handler = handler;
    sa.sa_mask = 0;
    sa.sa_flags = 0;
    sigaction(RTL_SIGUSR1, &sa, NULL);
    sigaction(RTL_SIGUSR2, &sa, NULL);
    sigemptyset(&set);
    sigaddset(&set, RTL_SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    step = 1;
    while (handled < 1) pthread_wait_np();
    sigpending(&set);
    rtl_printf("second is %s\n", sigismember(&set, RTL_SIGUSR2) ? "pending" : "not pending");
    sigemptyset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    rtl_printf("handled %d\n", handled);
    step = 2;
    sigsuspend(&set);
    rtl_printf("handled %d\n", handled);
    step = 3;
    pthread_suspend_np(pthread_self());
    rtl_printf("magic %s\n", pthread_self()->magic == RTL_THREAD_MAGIC ? "is right" : "?");
    rtl_printf("done\n");
    return 0;
}

void *send(void *arg)
{
    int before = 0;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 2000000);
    while (before < 4) {
        pthread_wait_np();
        if (step == 1 && before < 2) {
            pthread_kill(receiver, RTL_SIGUSR2);
            pthread_kill(receiver, RTL_SIGUSR1);
            pthread_kill(receiver, RTL_SIGNAL_WAKEUP);
            before = 2;
        } else if (step == 2 && before == 2) {
            pthread_kill(receiver, RTL_SIGUSR1);
            before = 3;
        } else if (step == 3 && before == 3) {
            pthread_kill(receiver, RTL_SIGNAL_WAKEUP);
            before = 4;
        }
    }
    return 0;
}

int init_module(void)
{
    return pthread_create(&receiver, NULL, receive, 0) | pthread_create(&sender, NULL, send, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(receiver);
    pthread_delete_np(sender);
}
