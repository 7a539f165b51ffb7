/* The machine's clock interrupts on line 8, at the rate that register A sets; a thread is woken by the handler. */
#include <rtl.h>
#include <rtl_core.h>
#include <time.h>
#include <pthread.h>
#include <linux/mc146818rtc.h>
#include <errno.h>

pthread_t thread;
volatile int interrupts = 0;

unsigned int handler(unsigned int irq, struct pt_regs *regs)
{
    CMOS_READ(RTC_REG_C);
    interrupts++;
    pthread_wakeup_np(thread);
    rtl_hard_enable_irq(8);
    return 0;
}

void *wait_for_them(void *arg)
{
    while (interrupts < 10) pthread_suspend_np(pthread_self());
    rtl_printf("interrupts came\n");
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    int error = pthread_create(&thread, NULL, wait_for_them, 0);
    if (error) return error;
    CMOS_WRITE(0x26, RTC_REG_A);
    CMOS_WRITE(CMOS_READ(RTC_REG_B) | RTC_PIE, RTC_REG_B);
    rtl_printf("a line that is not there: %d\n", rtl_request_irq(77, handler) == -EINVAL);
    error = rtl_request_irq(8, handler);
    rtl_printf("again: %d\n", rtl_request_irq(8, handler) == -EBUSY);
    rtl_hard_enable_irq(8);
    return error;
}

void cleanup_module(void)
{
    rtl_printf("freed: %d\n", rtl_free_irq(8));
    rtl_printf("again: %d\n", rtl_free_irq(8) == -EINVAL);
    pthread_delete_np(thread);
}
