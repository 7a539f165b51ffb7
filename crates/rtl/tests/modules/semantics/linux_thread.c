/* What `init_module` and `cleanup_module` are to themselves: Linux, a thread that cannot be released, suspended or
 * ended. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_sched.h>
#include <rtl_core.h>
#include <signal.h>
#include <errno.h>

static pthread_t thread;
static volatile int soft_calls = 0;

static void soft(int line, void *id, struct pt_regs *registers) { soft_calls++; }

static void *run(void *arg)
{
    rtl_printf("a thread is %s\n", pthread_self() != pthread_linux() && pthread_self() == thread ? "itself" : "?");
    return 0;
}

static void look(const char *where)
{
    pthread_t self = pthread_self();
    struct sched_param param = { 12345 }, read = { 0 };
    sigset_t set = 1UL << RTL_SIGUSR1, was = 0;
    int policy = -1;
    rtl_printf("%s\n", where);
    rtl_printf("self: %s\n", self && self == pthread_linux() && pthread_equal(self, pthread_linux()) ? "Linux" : "?");
    rtl_printf("magic: %s\n", self->magic == RTL_THREAD_MAGIC ? "right" : "?");
    rtl_printf("set priority: %d\n", pthread_setschedparam(self, SCHED_FIFO, &param));
    rtl_printf("get priority: %d\n", pthread_getschedparam(self, &policy, &read));
    rtl_printf("it is %s\n", read.sched_priority == 12345 && policy == SCHED_FIFO ? "what was set" : "?");
    param.sched_priority = -1;
    rtl_printf("set another: %s\n", pthread_setschedparam(self, SCHED_FIFO, &param) == EINVAL ? "EINVAL" : "?");
    rtl_printf("periodic: %s\n", pthread_make_periodic_np(self, gethrtime(), 1000000) == EINVAL ? "EINVAL" : "?");
    rtl_printf("wait: %s\n", pthread_wait_np() == EINVAL ? "EINVAL" : "?");
    rtl_printf("suspend: %s\n", pthread_suspend_np(self) == EINVAL ? "EINVAL" : "?");
    rtl_printf("wake up: %s\n", pthread_wakeup_np(self) == EINVAL ? "EINVAL" : "?");
    rtl_printf("delete: %s\n", pthread_delete_np(self) == EINVAL ? "EINVAL" : "?");
    rtl_printf("cancel: %s\n", pthread_cancel(self) == EINVAL ? "EINVAL" : "?");
    rtl_printf("join: %s\n", pthread_join(self, 0) == EINVAL ? "EINVAL" : "?");
    rtl_printf("floating point: %d\n", pthread_setfp_np(self, 1));
    rtl_printf("no signal: %d\n", pthread_kill(self, 0));
    rtl_printf("a signal: %s\n", pthread_kill(self, RTL_SIGUSR1) == EINVAL ? "EINVAL" : "?");
    rtl_printf("block: %d\n", pthread_sigmask(SIG_SETMASK, &set, 0));
    rtl_printf("blocked: %s\n", pthread_sigmask(SIG_BLOCK, 0, &was) == 0 && was == set ? "that" : "?");
    set = 0;
    pthread_sigmask(SIG_SETMASK, &set, 0);
}

int init_module(void)
{
    int line = rtl_get_soft_irq(soft, "semantics");
    look("init_module");
    rtl_printf("interrupt: %d\n", pthread_kill(pthread_linux(), RTL_LINUX_MIN_SIGNAL + line));
    while (soft_calls == 0) schedule_timeout(1);
    rtl_printf("soft line: %d\n", soft_calls);
    rtl_free_soft_irq(line);
    if (pthread_create(&thread, 0, run, 0)) return -1;
    rtl_printf("join: %d\n", pthread_join(thread, 0));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void)
{
    look("cleanup_module");
}
