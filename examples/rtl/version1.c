/* The names of RTLinux version 1. */
#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/rt_sched.h>

RT_TASK mytask;

void mainloop(int fifo)
{
    int i;
    for (i = 0; i < 3; i++) {
        printk("task %d, period %d\n", fifo, i);
        rt_task_wait();
    }
    printk("done\n");
    while (1) rt_task_wait();
}

int init_module(void)
{
    RTIME now = rt_get_time();
    int error = rt_task_init(&mytask, mainloop, 4, 3000, 4);
    return error ? error : rt_task_make_periodic(&mytask, now + 3000, RT_TICKS_PER_SEC / 500);
}

void cleanup_module(void)
{
    rt_task_delete(&mytask);
}
