//! The names of the API, one by one: each is there, so that a program that uses it compiles and links; or the compiler
//! refuses it, with the reason.

mod common;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

use common::World;
use freehold_rtl::compile;

/// Headers that programs of the time include.
const HEADERS: [&str; 35] = [
    "rtl.h",
    "rtl_sched.h",
    "rtl_fifo.h",
    "rtl_time.h",
    "rtl_sync.h",
    "rtl_core.h",
    "rtl_sema.h",
    "rtl_mutex.h",
    "rtl_spinlock.h",
    "rtl_signal.h",
    "rtl_printf.h",
    "rtl_debug.h",
    "pthread.h",
    "semaphore.h",
    "signal.h",
    "time.h",
    "unistd.h",
    "fcntl.h",
    "mbuff.h",
    "linux/module.h",
    "linux/kernel.h",
    "linux/malloc.h",
    "linux/mc146818rtc.h",
    "linux/rt_sched.h",
    "linux/rt_time.h",
    "linux/rtl.h",
    "linux/delay.h",
    "linux/types.h",
    "linux/spinlock.h",
    "rtl_barrier.h",
    "rtl_tracer.h",
    "asm/page.h",
    "asm/rt_time.h",
    "asm/bitops.h",
    "asm/io.h",
];

/// What each use may name.
const VARIABLES: &str = "
    pthread_t thread; pthread_attr_t attr; struct sched_param param; void *pointer; int number; unsigned long flags;
    struct timespec ts; struct itimerspec its; hrtime_t time; sigset_t set; rtl_sigset_t own; struct sigaction action;
    pthread_mutex_t mutex; pthread_mutexattr_t mutexattr; pthread_cond_t cond; sem_t sem; pthread_spinlock_t spin;
    timer_t timer; struct sigevent event; char text[8]; RT_TASK task; unsigned low, high; unsigned long long ticks;
    pthread_barrier_t barrier; pthread_barrierattr_t barrierattr; struct timeval tv; u8 byte;
    int handler(unsigned); unsigned line(unsigned, struct pt_regs *); void soft(int, void *, struct pt_regs *);
    void *start(void *); void v1(int);";

/// Names, and a use of each.
const THERE: &[(&str, &str)] = &[
    ("pthread_create", "pthread_create(&thread, &attr, start, pointer)"),
    ("pthread_self", "thread = pthread_self()"),
    ("pthread_equal", "pthread_equal(thread, thread)"),
    ("pthread_exit", "pthread_exit(pointer)"),
    ("pthread_join", "pthread_join(thread, &pointer)"),
    ("pthread_detach", "pthread_detach(thread)"),
    ("pthread_cancel", "pthread_cancel(thread)"),
    ("pthread_testcancel", "pthread_testcancel()"),
    (
        "pthread_setcancelstate",
        "pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &number)",
    ),
    (
        "pthread_setcanceltype",
        "pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &number)",
    ),
    (
        "pthread_cleanup_push",
        "pthread_cleanup_push(start, pointer); pthread_cleanup_pop(1)",
    ),
    (
        "pthread_setschedparam",
        "pthread_setschedparam(thread, SCHED_FIFO, &param)",
    ),
    (
        "pthread_getschedparam",
        "pthread_getschedparam(thread, &number, &param)",
    ),
    (
        "pthread_make_periodic_np",
        "pthread_make_periodic_np(thread, gethrtime(), 1000)",
    ),
    ("pthread_setperiod_np", "pthread_setperiod_np(thread, &its)"),
    ("pthread_wait_np", "pthread_wait_np()"),
    ("pthread_suspend_np", "pthread_suspend_np(thread)"),
    ("pthread_wakeup_np", "pthread_wakeup_np(thread)"),
    ("pthread_delete_np", "pthread_delete_np(thread)"),
    ("pthread_setfp_np", "pthread_setfp_np(thread, 1)"),
    ("pthread_getcpu_np", "pthread_getcpu_np(thread)"),
    ("pthread_linux", "thread = pthread_linux()"),
    ("magic", "thread->magic == RTL_THREAD_MAGIC"),
    ("pthread_attr_init", "pthread_attr_init(&attr)"),
    ("pthread_attr_destroy", "pthread_attr_destroy(&attr)"),
    (
        "pthread_attr_setschedparam",
        "pthread_attr_setschedparam(&attr, &param)",
    ),
    (
        "pthread_attr_getschedparam",
        "pthread_attr_getschedparam(&attr, &param)",
    ),
    (
        "pthread_attr_setschedpolicy",
        "pthread_attr_setschedpolicy(&attr, SCHED_FIFO)",
    ),
    (
        "pthread_attr_getschedpolicy",
        "pthread_attr_getschedpolicy(&attr, &number)",
    ),
    ("pthread_attr_setcpu_np", "pthread_attr_setcpu_np(&attr, 0)"),
    ("pthread_attr_getcpu_np", "pthread_attr_getcpu_np(&attr, &number)"),
    ("pthread_attr_setfp_np", "pthread_attr_setfp_np(&attr, 1)"),
    ("pthread_attr_setstacksize", "pthread_attr_setstacksize(&attr, 65536)"),
    (
        "pthread_attr_setdetachstate",
        "pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED)",
    ),
    ("stack_addr", "attr.stack_addr = pointer, attr.stack_size = 65536"),
    ("rtl_schedule", "rtl_schedule()"),
    ("sched_get_priority_max", "sched_get_priority_max(SCHED_FIFO)"),
    ("sched_yield", "sched_yield()"),
    ("gethrtime", "time = gethrtime()"),
    ("clock_gethrtime", "time = clock_gethrtime(CLOCK_REALTIME)"),
    ("hrt2ts", "ts = *hrt2ts(time)"),
    ("nanosleep", "nanosleep(&ts, NULL)"),
    (
        "clock_nanosleep",
        "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL)",
    ),
    ("usleep", "usleep(10)"),
    ("clock_gettime", "clock_gettime(CLOCK_RTL_SCHED, &ts)"),
    ("clock_getres", "clock_getres(CLOCK_REALTIME, &ts)"),
    ("rdtscl", "rdtscl(low)"),
    ("rdtscll", "rdtscll(ticks)"),
    ("rdtsc", "rdtsc(low, high)"),
    (
        "rtl_setclockmode",
        "rtl_setclockmode(CLOCK_REALTIME, RTL_CLOCK_MODE_PERIODIC, 1000)",
    ),
    ("rtl_delay", "rtl_delay(10)"),
    ("timespec_to_ns", "time = timespec_to_ns(&ts)"),
    ("timespec_from_ns", "ts = timespec_from_ns(time)"),
    ("timespec_add_ns", "timespec_add_ns(&ts, 10)"),
    ("timespec_add", "timespec_add(&ts, &ts)"),
    ("timespec_sub", "timespec_sub(&ts, &ts)"),
    ("timer_create", "timer_create(CLOCK_REALTIME, &event, &timer)"),
    ("timer_settime", "timer_settime(timer, 0, &its, NULL)"),
    ("timer_gettime", "timer_gettime(timer, &its)"),
    ("timer_getoverrun", "timer_getoverrun(timer)"),
    ("timer_delete", "timer_delete(timer)"),
    ("rtf_create", "rtf_create(0, 4000)"),
    ("rtf_destroy", "rtf_destroy(0)"),
    ("rtf_put", "rtf_put(0, text, 8)"),
    ("rtf_get", "rtf_get(0, text, 8)"),
    ("rtf_flush", "rtf_flush(0)"),
    ("rtf_isempty", "rtf_isempty(0)"),
    ("rtf_isused", "rtf_isused(0)"),
    ("rtf_create_handler", "rtf_create_handler(0, handler)"),
    ("rtf_create_rt_handler", "rtf_create_rt_handler(0, handler)"),
    ("rtf_make_user_pair", "rtf_make_user_pair(0, 1)"),
    ("RTF_NO", "number = RTF_NO"),
    ("open", "number = open(\"/dev/rtf0\", O_NONBLOCK)"),
    ("read", "read(number, text, 8)"),
    ("write", "write(number, text, 8)"),
    ("ioctl", "ioctl(number, RTF_SETSIZE, 4000)"),
    ("close", "close(number)"),
    (
        "pthread_kill",
        "pthread_kill(thread, RTL_SIGNAL_WAKEUP), pthread_kill(thread, RTL_SIGNAL_SUSPEND)",
    ),
    ("sigaction", "action.sa_mask = 0, sigaction(RTL_SIGUSR1, &action, NULL)"),
    ("rtl_sigemptyset", "rtl_sigemptyset(&own)"),
    ("rtl_sigfillset", "rtl_sigfillset(&own)"),
    ("rtl_sigaddset", "rtl_sigaddset(&own, RTL_SIGRTMIN)"),
    ("rtl_sigdelset", "rtl_sigdelset(&own, RTL_SIGRTMAX)"),
    ("rtl_sigismember", "rtl_sigismember(&own, RTL_SIGUSR2)"),
    ("sigemptyset", "sigemptyset(&set)"),
    ("pthread_sigmask", "pthread_sigmask(SIG_BLOCK, &set, NULL)"),
    ("sigprocmask", "sigprocmask(SIG_SETMASK, &set, NULL)"),
    ("sigsuspend", "sigsuspend(&set)"),
    ("sigpending", "sigpending(&set)"),
    ("raise", "raise(RTL_SIGUSR1)"),
    ("pthread_mutexattr_init", "pthread_mutexattr_init(&mutexattr)"),
    (
        "pthread_mutexattr_settype",
        "pthread_mutexattr_settype(&mutexattr, PTHREAD_MUTEX_SPINLOCK_NP)",
    ),
    (
        "pthread_mutexattr_setprotocol",
        "pthread_mutexattr_setprotocol(&mutexattr, PTHREAD_PRIO_PROTECT)",
    ),
    (
        "pthread_mutexattr_setprioceiling",
        "pthread_mutexattr_setprioceiling(&mutexattr, 10)",
    ),
    ("pthread_mutex_init", "pthread_mutex_init(&mutex, &mutexattr)"),
    ("pthread_mutex_lock", "pthread_mutex_lock(&mutex)"),
    ("pthread_mutex_trylock", "pthread_mutex_trylock(&mutex)"),
    ("pthread_mutex_timedlock", "pthread_mutex_timedlock(&mutex, &ts)"),
    ("pthread_mutex_unlock", "pthread_mutex_unlock(&mutex)"),
    ("pthread_mutex_destroy", "pthread_mutex_destroy(&mutex)"),
    ("pthread_cond_init", "pthread_cond_init(&cond, NULL)"),
    ("pthread_cond_wait", "pthread_cond_wait(&cond, &mutex)"),
    ("pthread_cond_timedwait", "pthread_cond_timedwait(&cond, &mutex, &ts)"),
    ("pthread_cond_signal", "pthread_cond_signal(&cond)"),
    ("pthread_cond_broadcast", "pthread_cond_broadcast(&cond)"),
    ("pthread_cond_destroy", "pthread_cond_destroy(&cond)"),
    ("sem_init", "sem_init(&sem, 0, 1)"),
    ("sem_wait", "sem_wait(&sem)"),
    ("sem_trywait", "sem_trywait(&sem)"),
    ("sem_timedwait", "sem_timedwait(&sem, &ts)"),
    ("sem_post", "sem_post(&sem)"),
    ("sem_getvalue", "sem_getvalue(&sem, &number)"),
    ("sem_destroy", "sem_destroy(&sem)"),
    ("pthread_spin_init", "pthread_spin_init(&spin, 0)"),
    ("pthread_spin_lock", "pthread_spin_lock(&spin)"),
    ("pthread_spin_unlock", "pthread_spin_unlock(&spin)"),
    ("rtl_spin_lock", "rtl_spin_lock(&spin)"),
    ("rtl_spin_unlock", "rtl_spin_unlock(&spin)"),
    ("rtl_spin_lock_irqsave", "rtl_spin_lock_irqsave(&spin, flags)"),
    ("rtl_spin_unlock_irqrestore", "rtl_spin_unlock_irqrestore(&spin, flags)"),
    ("init_module", "init_module()"),
    ("rtl_printf", "rtl_printf(\"%d\", number)"),
    ("printk", "printk(KERN_INFO \"%d\", number)"),
    ("conpr", "conpr(text)"),
    ("conprn", "conprn(number)"),
    ("rtl_getcpuid", "number = rtl_getcpuid()"),
    ("rtl_cpu_exists", "rtl_cpu_exists(1)"),
    ("rtl_num_cpus", "number = rtl_num_cpus()"),
    ("memcpy", "memcpy(text, text, 8)"),
    ("strncpy", "strncpy(text, \"a\", 8)"),
    ("sprintf", "sprintf(text, \"a\")"),
    ("mbuff_alloc", "pointer = mbuff_alloc(\"a\", 4096)"),
    ("mbuff_attach", "pointer = mbuff_attach(\"a\", 4096)"),
    ("mbuff_free", "mbuff_free(\"a\", pointer)"),
    ("mbuff_detach", "mbuff_detach(\"a\", pointer)"),
    ("kmalloc", "pointer = kmalloc(100, GFP_KERNEL)"),
    ("kfree", "kfree(pointer)"),
    ("vmalloc", "pointer = vmalloc(100)"),
    ("vfree", "vfree(pointer)"),
    ("inb", "number = inb(0x378), number = inw(0x378), number = inl(0x378)"),
    ("outb", "outb(1, 0x378), outw(1, 0x378), outl(1, 0x378)"),
    ("CMOS_READ", "number = CMOS_READ(10)"),
    ("CMOS_WRITE", "CMOS_WRITE(1, 10)"),
    ("check_region", "check_region(0x378, 3)"),
    ("request_region", "request_region(0x378, 3, \"a\")"),
    ("release_region", "release_region(0x378, 3)"),
    ("rtl_no_interrupts", "rtl_no_interrupts(flags)"),
    ("rtl_restore_interrupts", "rtl_restore_interrupts(flags)"),
    ("rtl_stop_interrupts", "rtl_stop_interrupts()"),
    ("rtl_allow_interrupts", "rtl_allow_interrupts()"),
    ("request_RTirq", "request_RTirq(7, line)"),
    ("free_RTirq", "free_RTirq(7)"),
    ("rtl_request_irq", "rtl_request_irq(7, line)"),
    ("rtl_free_irq", "rtl_free_irq(7)"),
    ("rtl_hard_enable_irq", "rtl_hard_enable_irq(7)"),
    ("rtl_hard_disable_irq", "rtl_hard_disable_irq(7)"),
    ("rtl_global_pend_irq", "rtl_global_pend_irq(7)"),
    ("rtl_get_soft_irq", "rtl_get_soft_irq(soft, \"a\")"),
    ("rtl_free_soft_irq", "rtl_free_soft_irq(7)"),
    ("set_bit", "set_bit(1, &flags)"),
    ("clear_bit", "clear_bit(1, &flags)"),
    ("change_bit", "change_bit(1, &flags)"),
    ("test_bit", "number = test_bit(1, &flags)"),
    ("test_and_set_bit", "number = test_and_set_bit(1, &flags)"),
    ("test_and_clear_bit", "number = test_and_clear_bit(1, &flags)"),
    ("rt_task_init", "rt_task_init(&task, v1, 0, 4096, 1)"),
    (
        "rt_task_make_periodic",
        "rt_task_make_periodic(&task, rt_get_time(), 1000)",
    ),
    ("rt_task_wait", "rt_task_wait()"),
    ("rt_task_suspend", "rt_task_suspend(&task)"),
    ("rt_task_wakeup", "rt_task_wakeup(&task)"),
    ("rt_task_delete", "rt_task_delete(&task)"),
    ("pthread_yield", "pthread_yield()"),
    ("pthread_attr_setcpu", "pthread_attr_setcpu(&attr, 0)"),
    ("pthread_attr_getcpu", "pthread_attr_getcpu(&attr, &number)"),
    ("pthread_attr_setfp", "pthread_attr_setfp(&attr, 1)"),
    ("pthread_attr_getfp_np", "pthread_attr_getfp_np(&attr, &number)"),
    ("pthread_attr_getfp", "pthread_attr_getfp(&attr, &number)"),
    (
        "pthread_barrier_init",
        "pthread_barrierattr_init(&barrierattr); pthread_barrier_init(&barrier, &barrierattr, 2)",
    ),
    ("pthread_barrier_wait", "number = pthread_barrier_wait(&barrier)"),
    (
        "pthread_barrier_destroy",
        "pthread_barrierattr_destroy(&barrierattr); pthread_barrier_destroy(&barrier)",
    ),
    ("RTL_MARK_SUSPENDED", "RTL_MARK_SUSPENDED(thread)"),
    ("RTL_MARK_READY", "RTL_MARK_READY(thread)"),
    ("schedule_timeout", "schedule_timeout(HZ / 10)"),
    ("jiffies", "flags = jiffies"),
    ("udelay", "udelay(1)"),
    ("mdelay", "mdelay(1)"),
    ("do_gettimeofday", "do_gettimeofday(&tv)"),
    ("HRT_TO_8254", "time = HRT_TO_8254(gethrtime())"),
    ("HRT_FROM_8254", "time = HRT_FROM_8254(1)"),
    ("HRT_FROM_NS", "time = HRT_FROM_NS(1)"),
    ("rt_delay", "rt_delay(10)"),
    ("rtl_set_oneshot_mode", "rtl_set_oneshot_mode()"),
    ("rtl_set_periodic_mode", "time = rtl_set_periodic_mode(1000)"),
    ("rtl_request_global_irq", "rtl_request_global_irq(7, line)"),
    ("rtl_free_global_irq", "rtl_free_global_irq(7)"),
    ("rtl_irq_set_affinity", "rtl_irq_set_affinity(7, &flags, &flags)"),
    ("RTL_SIGIRQMIN", "sigaction(RTL_SIGIRQMIN + 7, &action, 0)"),
    (
        "SA_FOCUS",
        "action.sa_flags = SA_FOCUS; action.sa_focus = 1 << rtl_getcpuid()",
    ),
    ("I8253_channel2_free", "number = I8253_channel2_free()"),
    ("do_softirq", "do_softirq()"),
    ("rt_printk", "rt_printk(\"a\")"),
    ("rtl_cprintf", "rtl_cprintf(\"a\")"),
    ("debugpr", "debugpr(\"%d\", 1)"),
    ("do_first", "do_first(2) number++"),
    ("do_every", "do_every(2) number++"),
    ("breakpoint", "breakpoint()"),
    ("rtl_trace2", "rtl_trace2(RTL_TRACE_USER, (long)1)"),
    ("PAGE_OFFSET", "timer = PAGE_OFFSET + 1"),
];

/// Names that are left out, a program of each that uses one, and the reason that the compiler says.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    (
        "rtl_getbestclock",
        "#include <rtl_time.h>\nvoid *f(void) { return rtl_getbestclock(0); }",
        "raw clocks program the timer chip",
    ),
    (
        "rtl_setclockhandler",
        "#include <rtl_time.h>\nvoid f(void) { rtl_setclockhandler(0, 0); }",
        "raw clocks program the timer chip",
    ),
    (
        "rtl_unsetclockhandler",
        "#include <rtl_time.h>\nvoid f(void) { rtl_unsetclockhandler(0); }",
        "raw clocks program the timer chip",
    ),
    (
        "settimer",
        "#include <rtl_time.h>\nvoid f(clockid_t c) { c->settimer(c, 1); }",
        "raw_clocks_program_the_timer_chip",
    ),
    (
        "ioremap",
        "#include <asm/io.h>\nvoid *f(void) { return ioremap(0x6000000, 4096); }",
        "left out: memory of devices",
    ),
    (
        "iounmap",
        "#include <asm/io.h>\nvoid f(void *p) { iounmap(p); }",
        "left out: memory of devices",
    ),
    (
        "virt_to_phys",
        "#include <asm/io.h>\nlong f(void *p) { return virt_to_phys(p); }",
        "left out: memory of devices",
    ),
    (
        "request_irq",
        "#include <linux/sched.h>\nint f(void) { return request_irq(7, 0, 0, \"a\", 0); }",
        "left out: interrupts of the Linux kernel",
    ),
    (
        "free_irq",
        "#include <linux/sched.h>\nvoid f(void) { free_irq(7, 0); }",
        "left out: interrupts of the Linux kernel",
    ),
    (
        "copy_to_user",
        "#include <asm/uaccess.h>\nint f(void *p) { return copy_to_user(p, p, 1); }",
        "left out: ",
    ),
    (
        "copy_from_user",
        "#include <asm/uaccess.h>\nint f(void *p) { return copy_from_user(p, p, 1); }",
        "left out: ",
    ),
    (
        "tasklet_schedule",
        "#include <linux/interrupt.h>",
        "is left out: tasklets",
    ),
    (
        "add_timer",
        "#include <linux/timer.h>",
        "is left out: timers of the Linux kernel",
    ),
    ("queue_task", "#include <linux/tqueue.h>", "is left out: "),
    ("kernel_thread", "#include <linux/kthread.h>", "is left out: "),
    ("create_proc_entry", "#include <linux/proc_fs.h>", "is left out: "),
    ("register_chrdev", "#include <linux/fs.h>", "is left out: "),
    ("register_sysctl_table", "#include <linux/sysctl.h>", "is left out: "),
    ("pci_find_device", "#include <linux/pci.h>", "is left out: "),
    ("mem_map_reserve", "#include <linux/wrapper.h>", "is left out: "),
    (
        "mmap",
        "#include <rtl.h>\n#include <sys/mman.h>\nvoid *f(int d) { return mmap(0, 1, PROT_READ, MAP_SHARED, d, 0); }",
        "left out: memory of devices",
    ),
    (
        "kernel_thread_call",
        "#include <linux/sched.h>\nint f(void *p) { return kernel_thread(p, p, 0); }",
        "left out: a module here is no part of the Linux kernel",
    ),
    (
        "current",
        "#include <linux/sched.h>\nvoid f(void) { current->state = 1; }",
        "left_out_a_module_here_has_no_current_process",
    ),
    (
        "wait_queue_head_t",
        "#include <linux/sched.h>\nstatic wait_queue_head_t queue;",
        "left_out_wait_queues_are_the_Linux_kernels",
    ),
    ("rtl_cpp", "#include <rtl_cpp.h>", "is left out: "),
];

fn compiled(world: &World, name: &str, text: &str) -> (std::path::PathBuf, Output) {
    let source = world.directory.path().join(format!("{name}.c"));
    let object = source.with_extension("o");
    std::fs::write(&source, text).expect("a source");
    let headers = world.directory.path().join("headers");
    compile::write_headers(&headers).expect("the headers");
    let mut compiler = Command::new("cc");
    let options = [
        "-std=gnu89",
        "-fPIC",
        "-w",
        "-D__KERNEL__",
        "-DMODULE",
        "-Werror=implicit-function-declaration",
    ];
    compiler.args(options).arg("-I").arg(headers).arg("-c").arg(source);
    let output = compiler.arg("-o").arg(&object).output().expect("a C compiler");
    (object, output)
}

#[test]
fn every_name_that_programs_use_is_declared_and_links() {
    let Some(world) = World::new("names") else { return };
    let mut text: String = HEADERS.iter().map(|header| format!("#include <{header}>\n")).collect();
    text.push_str("MODULE_AUTHOR(\"a\"); MODULE_LICENSE(\"GPL\"); MODULE_DESCRIPTION(\"b\");\n");
    text.push_str("int period = 1; MODULE_PARM(period, \"i\"); MODULE_PARM_DESC(period, \"c\");\n");
    text.push_str(
        "int handler(unsigned fifo) { return 0; }\nunsigned line(unsigned n, struct pt_regs *r) { return 0; }\n",
    );
    text.push_str(
        "void soft(int n, void *p, struct pt_regs *r) {}\nvoid *start(void *p) { return p; }\nvoid v1(int n) {}\n",
    );
    text.push_str("int init_module(void) { return 0; }\nvoid cleanup_module(void) {}\n");
    for (index, (name, usage)) in THERE.iter().enumerate() {
        assert!(usage.contains(name), "{name}");
        writeln!(text, "void use_{index}(void) {{ {VARIABLES}\n{usage}; }}").expect("text");
    }
    let (object, output) = compiled(&world, "names", &text);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = Path::new(env!("CARGO_BIN_EXE_freehold-rtl"))
        .parent()
        .expect("a folder")
        .join("deps");
    compile::link(&object, &object.with_extension("so"), &library).expect("every name is somebody's");
}

#[test]
fn every_name_that_is_left_out_is_refused_with_the_reason() {
    let Some(world) = World::new("left-out-names") else {
        return;
    };
    for (name, text, reason) in LEFT_OUT {
        // Optimised, as it was then: what is refused is a call.
        let (_, output) = compiled(&world, name, &format!("{text}\n"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{name}: {said}");
    }
    // The command's own way says it too.
    let source = world.directory.path().join("ioremap.c");
    let arguments: [OsString; 4] = ["-c".into(), source.into(), "-o".into(), "/dev/null".into()];
    assert_ne!(compile::compile(&arguments).expect("it runs"), 0);
}
