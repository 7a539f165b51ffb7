/* Version 1 counts in ticks of the 8254 chip, 838 ns each. */
#include <rtl_sched.h>
#include <rtl_time.h>
#include <linux/module.h>
#include <linux/kernel.h>
#include <errno.h>

static RT_TASK task;
static volatile int turns = 0;

static void run(int data)
{
    while (turns++ < 20) rt_task_wait();
    printk("data %d\n", data);
    printk("done\n");
    while (1) rt_task_wait();
}

int init_module(void)
{
    hrtime_t before = gethrtime();
    RTIME now = rt_get_time();
    hrtime_t after = gethrtime();
    printk("a second: %d ticks\n", (int)RT_TICKS_PER_SEC);
    printk("now: %s\n", before / 838 <= now && now <= after / 838 ? "in ticks" : "?");
    printk("init: %d\n", rt_task_init(&task, run, 7, 3000, 4));
    printk("negative: %s\n", rt_task_make_periodic(&task, now, -1) == -EINVAL ? "-EINVAL" : "?");
    printk("periodic: %d\n", rt_task_make_periodic(&task, now + 100, 1000));
    return 0;
}

void cleanup_module(void)
{
    printk("delete: %d\n", rt_task_delete(&task));
    printk("again: %s\n", rt_task_delete(&task) == -EINVAL ? "-EINVAL" : "?");
}
