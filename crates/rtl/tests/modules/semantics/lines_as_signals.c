/* A line's handler set by `sigaction`, by its global name, and in the way of version 1. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_core.h>
#include <asm/rt_irq.h>
#include <signal.h>
#include <errno.h>

#define TIMER_LINE 0

static volatile int calls = 0, last = -1;

static void on_signal(int number)
{
    last = number;
    calls++;
    rtl_hard_enable_irq(TIMER_LINE);
}

static unsigned on_line(unsigned line, struct pt_regs *registers)
{
    last = line;
    calls++;
    return 0;
}

static void on_version1(void) { calls++; }

static void wait_for(int count)
{
    while (calls < count) schedule_timeout(1);
}

int init_module(void)
{
    struct sigaction action, before;
    unsigned long first = 1, was = 0;
    action.sa_handler = on_signal;
    action.sa_mask = 0;
    action.sa_flags = SA_FOCUS;
    action.sa_focus = 1;
    rtl_printf("sigaction: %d\n", sigaction(RTL_SIGIRQMIN + TIMER_LINE, &action, 0));
    schedule_timeout(5);
    rtl_printf("off at first: %s\n", calls == 0 ? "yes" : "?");
    rtl_printf("on: %d\n", rtl_hard_enable_irq(TIMER_LINE));
    wait_for(3);
    rtl_printf("number: %s\n", last == RTL_SIGIRQMIN + TIMER_LINE ? "the signal's" : "?");
    rtl_printf("taken: %s\n", rtl_request_irq(TIMER_LINE, on_line) == -EBUSY ? "EBUSY" : "?");
    action.sa_handler = SIG_IGN;
    rtl_printf("ignored: %d\n", sigaction(RTL_SIGIRQMIN + TIMER_LINE, &action, &before));
    rtl_printf("before: %s\n", before.sa_handler == on_signal ? "the handler" : "?");
    action.sa_handler = on_signal;
    rtl_printf("no line: %s\n", sigaction(RTL_SIGIRQMIN + 99, &action, 0) == -1 && errno == EINVAL ? "EINVAL" : "?");

    calls = 0;
    rtl_printf("global: %d\n", rtl_request_global_irq(TIMER_LINE, on_line));
    rtl_printf("affinity: %d\n", rtl_irq_set_affinity(TIMER_LINE, &first, &was));
    rtl_printf("before: %s\n", was == ~0UL ? "every CPU" : "?");
    rtl_printf("now: %s\n", rtl_irq_set_affinity(TIMER_LINE, 0, &was) == 0 && was == 1 ? "the first" : "?");
    rtl_hard_enable_irq(TIMER_LINE);
    wait_for(3);
    rtl_printf("number: %s\n", last == TIMER_LINE ? "the line's" : "?");
    rtl_printf("free: %d\n", rtl_free_global_irq(TIMER_LINE));
    rtl_printf("affinity of none: %s\n", rtl_irq_set_affinity(TIMER_LINE, &first, 0) == -EINVAL ? "EINVAL" : "?");

    calls = 0;
    rtl_printf("version 1: %d\n", request_RTirq(TIMER_LINE, on_version1));
    wait_for(2);
    rtl_printf("free: %d\n", free_RTirq(TIMER_LINE));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void) {}
