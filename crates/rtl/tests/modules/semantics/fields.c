/* Fields of `pthread_attr_t` that a program writes itself, arrays and strings that it has as parameters, periods that
 * it changes while a task runs. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_sched.h>
#include <linux/module.h>
#include <linux/rt_sched.h>
#include <errno.h>

static char *names[2] = { "one", "two" };
static short numbers[3] = { 1, 2, 3 };
MODULE_PARM(names, "2s");
MODULE_PARM(numbers, "1-3h");

static RT_TASK task;
static volatile int rounds = 0;
/* What a thread found: `init_module` prints it, or the lines of both would come in any order. */
static char found[100];

static void run_task(int data)
{
    while (1) {
        rounds++;
        rt_task_wait();
    }
}

static void *run(void *arg)
{
    struct sched_param param;
    int policy;
    char big[100000];
    big[0] = 1;
    big[sizeof big - 1] = 1;
    pthread_getschedparam(pthread_self(), &policy, &param);
    sprintf(found, "priority %d, CPU %s, stack %s\n", param.sched_priority,
            rtl_getcpuid() == pthread_getcpu_np(pthread_self()) ? "as asked" : "?",
            big[0] + big[sizeof big - 1] == 2 ? "holds" : "?");
    return 0;
}

int init_module(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    RTIME now;
    int before;
    rtl_printf("%s %s %d %d %d\n", names[0], names[1], numbers[0], numbers[1], numbers[2]);
    pthread_attr_init(&attr);
    attr.stack_size = 200000;
    attr.cpu = rtl_getcpuid();
    attr.sched_param.sched_priority = 33;
    attr.use_fp = 1;
    rtl_printf("create: %d\n", pthread_create(&thread, &attr, run, 0));
    rtl_printf("join: %d\n", pthread_join(thread, 0));
    rtl_printf("%s", found);
    found[0] = 0;
    attr.sched_param.sched_priority = -1;
    rtl_printf("no priority: %s\n", pthread_create(&thread, &attr, run, 0) == EINVAL ? "EINVAL" : "?");
    attr.sched_param.sched_priority = 0;
    attr.detachstate = PTHREAD_CREATE_DETACHED;
    rtl_printf("detached: %d\n", pthread_create(&thread, &attr, run, 0));
    schedule_timeout(5);
    rtl_printf("%s", found);
    rtl_printf("task: %d\n", rt_task_init(&task, run_task, 0, 8192, 3));
    schedule_timeout(2);
    rtl_printf("waits: %s\n", rounds == 0 ? "yes" : "?");
    now = rt_get_time();
    rt_task_make_periodic(&task, now, 1000);
    while (rounds < 20) schedule_timeout(1);
    rt_task_make_periodic(&task, rt_get_time(), RT_TICKS_PER_SEC * 600);
    schedule_timeout(2);
    before = rounds;
    schedule_timeout(5);
    rtl_printf("slower: %s\n", rounds == before ? "yes" : "?");
    rt_task_make_periodic(&task, rt_get_time(), 1000);
    while (rounds < before + 20) schedule_timeout(1);
    rtl_printf("suspend: %d\n", rt_task_suspend(&task));
    schedule_timeout(2);
    before = rounds;
    schedule_timeout(5);
    rtl_printf("suspended: %s\n", rounds == before ? "yes" : "?");
    rtl_printf("wake up: %d\n", rt_task_wakeup(&task));
    while (rounds < before + 20) schedule_timeout(1);
    rtl_printf("delete: %d\n", rt_task_delete(&task));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void) {}
