/* The names of RTLinux version 1, in terms of threads. A task runs from its first release, or wake-up, on. Times are
 * ticks of the 8254 chip, and errors are negative, as they were. Included by freehold_rtl.h only. */
#ifndef FREEHOLD_RTL_V1_H
#define FREEHOLD_RTL_V1_H

typedef hrtime_t RTIME;
typedef struct { rtl_pthread_t thread; void (*function)(int); int data; } RT_TASK;
#define RT_TICKS_PER_SEC 1193180LL
#define RT_TIME_END (HRTIME_INFINITY / 838)
#define RT_LOWEST_PRIORITY 1000000

static __inline__ RTIME rt_get_time(void) { return HRT_TO_8254(rtl_gethrtime()); }

static void *rtl_v1_run(void *argument)
{
    RT_TASK *task = (RT_TASK *)argument;
    rtl_pthread_wait_np();
    task->function(task->data);
    return 0;
}

/* Version 1 counts priorities downwards: 1 is the most urgent. */
static int __attribute__((unused))
rt_task_init(RT_TASK *task, void (*function)(int), int data, int stack, int priority)
{
    rtl_pthread_attr_t attributes;
    struct sched_param parameters;
    rtl_pthread_attr_init(&attributes);
    rtl_pthread_attr_setstacksize(&attributes, stack);
    parameters.sched_priority = priority < 80 ? 80 - priority : 0;
    rtl_pthread_attr_setschedparam(&attributes, &parameters);
    task->function = function;
    task->data = data;
    return -rtl_pthread_create(&task->thread, &attributes, rtl_v1_run, task);
}

#define rt_task_make_periodic(task, start, period) \
    (-rtl_pthread_make_periodic_np((task)->thread, HRT_FROM_8254((RTIME)(start)), HRT_FROM_8254((RTIME)(period))))
#define rt_task_wait() rtl_pthread_wait_np()
#define rt_task_suspend(task) (-rtl_pthread_suspend_np((task)->thread))
#define rt_task_wakeup(task) (-rtl_pthread_wakeup_np((task)->thread))
#define rt_task_delete(task) (rtl_pthread_delete_np((task)->thread) ? -EINVAL : 0)
#define rt_task_use_fp(task, flag) 0
#define rt_use_fp(flag) 0
#define rt_delay(ticks) rtl_delay(HRT_FROM_8254(ticks))
#define rtl_set_oneshot_mode() rtl_setclockmode(rtl_clock_by_number(0), RTL_CLOCK_MODE_ONESHOT, 0)
#define rtl_set_periodic_mode(period) \
    (rtl_setclockmode(rtl_clock_by_number(0), RTL_CLOCK_MODE_PERIODIC, HRT_FROM_8254(period)) \
         ? RT_TIME_END : rt_get_time())
#endif
