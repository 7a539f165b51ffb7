/* A signal that is ignored, or that nothing is done for, ends no wait; one with a handler ends it. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <errno.h>

static pthread_t waiter, sender;
static sem_t semaphore;
static volatile int handled = 0, stage = 0;

static void handler(int number) { handled++; }

static void handle(int number, void (*function)(int))
{
    struct sigaction action;
    action.sa_handler = function;
    action.sa_mask = 0;
    action.sa_flags = 0;
    sigaction(number, &action, 0);
}

static void *wait(void *arg)
{
    sigset_t none = 0;
    struct timespec long_time = { 600, 0 };
    handle(RTL_SIGUSR1, SIG_IGN);
    handle(RTL_SIGUSR2, SIG_DFL);
    handle(RTL_SIGRTMAX, handler);
    stage = 1;
    sigsuspend(&none);
    rtl_printf("suspended until %s\n", handled == 1 ? "handled" : "?");
    stage = 2;
    rtl_printf("sleep: %s\n", nanosleep(&long_time, &long_time) == -1 && errno == EINTR ? "EINTR" : "?");
    rtl_printf("until %s\n", handled == 2 && long_time.tv_sec > 60 ? "handled" : "?");
    stage = 3;
    rtl_printf("semaphore: %s\n", sem_wait(&semaphore) == -1 && errno == EINTR ? "EINTR" : "?");
    rtl_printf("until %s\n", handled == 3 ? "handled" : "?");
    stage = 4;
    rtl_printf("done\n");
    return 0;
}

static void *send(void *arg)
{
    int told = 0;
    while (told < 3) {
        usleep(2000);
        if (stage != told + 1) continue;
        usleep(5000);
        pthread_kill(waiter, RTL_SIGUSR1);
        pthread_kill(waiter, RTL_SIGUSR2);
        usleep(20000);
        if (handled != told) rtl_printf("handled: ?\n");
        pthread_kill(waiter, RTL_SIGRTMAX);
        told++;
    }
    return 0;
}

int init_module(void)
{
    sem_init(&semaphore, 0, 0);
    return pthread_create(&waiter, 0, wait, 0) | pthread_create(&sender, 0, send, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(waiter);
    pthread_delete_np(sender);
}
