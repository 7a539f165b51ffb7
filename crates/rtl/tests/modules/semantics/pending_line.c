/* A line that is given back while it comes, by its own handler too, and taken again; the last is left to the end of
 * the module. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_core.h>
#include <errno.h>

#define LINE 8

static volatile int calls = 0;
static int freed = 99;

static unsigned count(unsigned line, struct pt_regs *registers)
{
    calls++;
    return 0;
}

static unsigned free_itself(unsigned line, struct pt_regs *registers)
{
    if (calls++ == 0) freed = rtl_free_irq(line);
    return 0;
}

int init_module(void)
{
    int turn, after, answers = 0, late = 0;
    for (turn = 0; turn < 20; turn++) {
        answers |= rtl_request_irq(LINE, count);
        answers |= rtl_hard_enable_irq(LINE);
        while (calls == 0) usleep(100);
        answers |= rtl_free_irq(LINE);
        after = calls;
        usleep(3000);
        late += calls != after;
        calls = 0;
    }
    rtl_printf("answers %d, calls after it was given back: %d\n", answers, late);
    rtl_printf("request: %d\n", rtl_request_irq(LINE, free_itself));
    rtl_printf("enable: %d\n", rtl_hard_enable_irq(LINE));
    while (freed == 99) usleep(1000);
    rtl_printf("by itself: %d\n", freed);
    usleep(20000);
    rtl_printf("calls: %d\n", calls);
    rtl_printf("enable: %s\n", rtl_hard_enable_irq(LINE) == -EINVAL ? "EINVAL" : "?");
    rtl_printf("request: %d\n", rtl_request_irq(LINE, count));
    rtl_printf("enable: %d\n", rtl_hard_enable_irq(LINE));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void) {}
