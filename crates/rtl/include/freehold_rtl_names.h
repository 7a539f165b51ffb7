/* The original names for what freehold_rtl.h declares. Included by it only, after every header of the system's. */
#ifndef FREEHOLD_RTL_NAMES_H
#define FREEHOLD_RTL_NAMES_H

/* Time. Both clocks are one scale, CLOCK_MONOTONIC of Linux: programs subtract one from the other. */
#undef CLOCK_REALTIME
#undef CLOCK_MONOTONIC
#define CLOCK_REALTIME rtl_clock_by_number(0)
#define CLOCK_MONOTONIC rtl_clock_by_number(1)
#define CLOCK_RTL_SCHED rtl_clock_by_number(2)
#define CLOCK_GPOS rtl_clock_by_number(3)
#define CLOCK_UST rtl_clock_by_number(4)
#define CLOCK_8254 rtl_clock_by_number(5)
#define CLOCK_APIC rtl_clock_by_number(6)
#define clockid_t rtl_clockid_t
#define gethrtime rtl_gethrtime
#define gethrtimeres rtl_gethrtimeres
#define clock_gethrtime rtl_clock_gethrtime
#define clock_gettime rtl_clock_gettime
#define clock_settime rtl_clock_settime
#define clock_getres rtl_clock_getres
#define clock_nanosleep rtl_clock_nanosleep
#define nanosleep rtl_nanosleep
#define timer_t rtl_timer_t
#define timer_create rtl_timer_create
#define timer_delete rtl_timer_delete
#define timer_settime rtl_timer_settime
#define timer_gettime rtl_timer_gettime
#define timer_getoverrun rtl_timer_getoverrun
/* A raw clock's own timer is left out: naming it does not compile, and this is the reason. */
#define settimer freehold_rtl_left_out_raw_clocks_program_the_timer_chip_use_timer_settime
/* Pauses as the kernel had them: a tick is a hundredth of a second. */
#undef HZ
#define HZ 100
#define jiffies rtl_jiffies()
#define schedule_timeout(ticks) rtl_schedule_timeout(ticks)
#define udelay(microseconds) rtl_delay((long)(microseconds) * 1000)
#define mdelay(milliseconds) rtl_delay((long)(milliseconds) * 1000000)
#define do_gettimeofday(time) gettimeofday((time), 0)
#define usleep rtl_usleep
#define sleep rtl_sleep

/* Threads. */
#undef PTHREAD_STACK_MIN
#define PTHREAD_STACK_MIN RTL_PTHREAD_STACK_MIN
#define pthread_t rtl_pthread_t
#define pthread_attr_t rtl_pthread_attr_t
#define pthread_attr_init rtl_pthread_attr_init
#define pthread_attr_destroy rtl_pthread_attr_destroy
#define pthread_attr_setstacksize rtl_pthread_attr_setstacksize
#define pthread_attr_getstacksize rtl_pthread_attr_getstacksize
#define pthread_attr_setstackaddr rtl_pthread_attr_setstackaddr
#define pthread_attr_getstackaddr rtl_pthread_attr_getstackaddr
#define pthread_attr_setdetachstate rtl_pthread_attr_setdetachstate
#define pthread_attr_getdetachstate rtl_pthread_attr_getdetachstate
#define pthread_attr_setschedparam rtl_pthread_attr_setschedparam
#define pthread_attr_getschedparam rtl_pthread_attr_getschedparam
#define pthread_attr_setschedpolicy rtl_pthread_attr_setschedpolicy
#define pthread_attr_getschedpolicy rtl_pthread_attr_getschedpolicy
#define pthread_attr_setcpu_np rtl_pthread_attr_setcpu_np
#define pthread_attr_getcpu_np rtl_pthread_attr_getcpu_np
#define pthread_attr_setfp_np rtl_pthread_attr_setfp_np
#define pthread_create rtl_pthread_create
#define pthread_self rtl_pthread_self
#define pthread_equal rtl_pthread_equal
#define pthread_exit rtl_pthread_exit
/* Programs also pass a number's place for the pointer that a thread returns: no more is written than it holds. */
#define pthread_join(thread, place) rtl_pthread_join((thread), (place), __builtin_object_size((place), 1))
#define pthread_detach rtl_pthread_detach
#define pthread_cancel rtl_pthread_cancel
#define pthread_testcancel rtl_pthread_testcancel
#define pthread_setcancelstate rtl_pthread_setcancelstate
#define pthread_setcanceltype rtl_pthread_setcanceltype
#define pthread_setschedparam rtl_pthread_setschedparam
#define pthread_getschedparam rtl_pthread_getschedparam
#define pthread_make_periodic_np rtl_pthread_make_periodic_np
#define pthread_wait_np rtl_pthread_wait_np
#define pthread_suspend_np rtl_pthread_suspend_np
#define pthread_wakeup_np rtl_pthread_wakeup_np
#define pthread_delete_np rtl_pthread_delete_np
#define pthread_setfp_np rtl_pthread_setfp_np
#define pthread_setperiod_np rtl_pthread_setperiod_np
#define pthread_getcpu_np rtl_pthread_getcpu_np
#define pthread_linux rtl_pthread_linux
#define sched_get_priority_max rtl_sched_get_priority_max
#define sched_get_priority_min rtl_sched_get_priority_min
#define sched_yield rtl_sched_yield
#undef pthread_yield
#define pthread_yield rtl_sched_yield
#define pthread_attr_setcpu(attributes, cpu) rtl_pthread_attr_setcpu_np((attributes), (cpu))
#define pthread_attr_getcpu(attributes, cpu) rtl_pthread_attr_getcpu_np((attributes), (cpu))
#define pthread_attr_setfp(attributes, flag) rtl_pthread_attr_setfp_np((attributes), (flag))
#define pthread_attr_getfp_np(attributes, flag) ((void)(*(flag) = (attributes)->use_fp), 0)
#define pthread_attr_getfp(attributes, flag) pthread_attr_getfp_np((attributes), (flag))
#undef pthread_cleanup_push
#undef pthread_cleanup_pop
#define pthread_cleanup_push(function, value) do { struct rtl_cleanup rtl_cleanup_here; \
    rtl_cleanup_here.routine = (void (*)(void *))(function); rtl_cleanup_here.argument = (value); \
    rtl_cleanup_push(&rtl_cleanup_here);
#define pthread_cleanup_pop(execute) rtl_cleanup_pop(&rtl_cleanup_here, (execute)); } while (0)

/* Signals. */
#undef sa_handler
#undef sa_sigaction
#define sa_handler rtl_u.rtl_handler
#define sa_sigaction rtl_u.rtl_action
/* Which CPUs a line's handler runs on, by `sa_focus`. */
#define SA_FOCUS 0x40000000
#define sigset_t rtl_sigset_t
#define sigaction rtl_sigaction
#define sigprocmask rtl_sigprocmask
#define pthread_sigmask rtl_sigprocmask
#define sigpending rtl_sigpending
#define sigsuspend rtl_sigsuspend
#undef sigemptyset
#undef sigfillset
#undef sigaddset
#undef sigdelset
#undef sigismember
#define sigemptyset(set) rtl_sigemptyset(set)
#define sigfillset(set) rtl_sigfillset(set)
#define sigaddset(set, signal) rtl_sigaddset(set, signal)
#define sigdelset(set, signal) rtl_sigdelset(set, signal)
#define sigismember(set, signal) rtl_sigismember(set, signal)
#define pthread_kill rtl_pthread_kill
#define raise rtl_raise

/* Locks. */
#undef PTHREAD_MUTEX_INITIALIZER
#undef PTHREAD_COND_INITIALIZER
#undef PTHREAD_MUTEX_NORMAL
#undef PTHREAD_MUTEX_DEFAULT
#undef PTHREAD_PRIO_NONE
#undef PTHREAD_PRIO_INHERIT
#undef PTHREAD_PRIO_PROTECT
#define PTHREAD_MUTEX_NORMAL 0
#define PTHREAD_MUTEX_DEFAULT 0
#define PTHREAD_MUTEX_SPINLOCK_NP 1
#define PTHREAD_PRIO_NONE 0
#define PTHREAD_PRIO_INHERIT 1
#define PTHREAD_PRIO_PROTECT 2
#define PTHREAD_MUTEX_INITIALIZER { 0, 0, 0, 0 }
#define PTHREAD_COND_INITIALIZER { 0, 0 }
#define pthread_mutex_t rtl_pthread_mutex_t
#define pthread_mutexattr_t rtl_pthread_mutexattr_t
#define pthread_cond_t rtl_pthread_cond_t
#define pthread_condattr_t rtl_pthread_condattr_t
#define pthread_mutexattr_init rtl_pthread_mutexattr_init
#define pthread_mutexattr_destroy rtl_pthread_mutexattr_destroy
#define pthread_mutexattr_settype rtl_pthread_mutexattr_settype
#define pthread_mutexattr_gettype rtl_pthread_mutexattr_gettype
#define pthread_mutexattr_setprotocol rtl_pthread_mutexattr_setprotocol
#define pthread_mutexattr_getprotocol rtl_pthread_mutexattr_getprotocol
#define pthread_mutexattr_setprioceiling rtl_pthread_mutexattr_setprioceiling
#define pthread_mutexattr_getprioceiling rtl_pthread_mutexattr_getprioceiling
#define pthread_mutexattr_setpshared rtl_pthread_mutexattr_setpshared
#define pthread_mutexattr_getpshared rtl_pthread_mutexattr_getpshared
#define pthread_mutex_init rtl_pthread_mutex_init
#define pthread_mutex_destroy rtl_pthread_mutex_destroy
#define pthread_mutex_lock rtl_pthread_mutex_lock
#define pthread_mutex_trylock rtl_pthread_mutex_trylock
#define pthread_mutex_timedlock rtl_pthread_mutex_timedlock
#define pthread_mutex_unlock rtl_pthread_mutex_unlock
#define pthread_condattr_init(attributes) 0
#define pthread_condattr_destroy(attributes) 0
#define pthread_cond_init rtl_pthread_cond_init
#define pthread_cond_destroy rtl_pthread_cond_destroy
#define pthread_cond_wait rtl_pthread_cond_wait
#define pthread_cond_timedwait rtl_pthread_cond_timedwait
#define pthread_cond_signal rtl_pthread_cond_signal
#define pthread_cond_broadcast rtl_pthread_cond_broadcast
#undef PTHREAD_BARRIER_SERIAL_THREAD
#define PTHREAD_BARRIER_SERIAL_THREAD (-1)
#define pthread_barrier_t rtl_barrier_t
#define pthread_barrierattr_t rtl_barrierattr_t
#define pthread_barrierattr_init(attributes) ((void)((attributes)->shared = 0), 0)
#define pthread_barrierattr_destroy(attributes) 0
#define pthread_barrier_init rtl_barrier_init
#define pthread_barrier_destroy rtl_barrier_destroy
#define pthread_barrier_wait rtl_barrier_wait
#define sem_t rtl_sem_t
#define sem_init rtl_sem_init
#define sem_destroy rtl_sem_destroy
#define sem_wait rtl_sem_wait
#define sem_trywait rtl_sem_trywait
#define sem_timedwait rtl_sem_timedwait
#define sem_post rtl_sem_post
#define sem_getvalue rtl_sem_getvalue
#define pthread_spinlock_t rtl_pthread_spinlock_t
#define pthread_spin_init rtl_spin_init
#define pthread_spin_destroy rtl_spin_destroy
#define pthread_spin_lock rtl_spin_take
#define pthread_spin_trylock rtl_spin_try
#define pthread_spin_unlock rtl_spin_release
#define spinlock_t rtl_pthread_spinlock_t
#define SPIN_LOCK_UNLOCKED { 0 }
#define spin_lock_init(lock) rtl_spin_init((lock), 0)

/* Files, from real-time threads. The flags and further arguments that have no meaning here are dropped. */
#define open(path, flags, ...) rtl_open((path), (flags))
#define read(descriptor, buffer, count) rtl_read((descriptor), (buffer), (count))
#define write(descriptor, buffer, count) rtl_write((descriptor), (buffer), (count))
#define close(descriptor) rtl_close(descriptor)
#define ioctl(descriptor, request, argument...) rtl_ioctl((descriptor), (request), (long)(0, ##argument))

/* Shared memory. */
#define mbuff_alloc(name, size) rtl_mbuff_alloc((name), (size))
#define mbuff_attach(name, size) rtl_mbuff_attach((name), (size))
#define mbuff_free(name, memory) rtl_mbuff_free((name), (void *)(memory))
#define mbuff_detach(name, memory) rtl_mbuff_free((name), (void *)(memory))

/* What the kernel gave modules. Ports need not be reserved: they are the module's own latches. */
#define check_region(start, count) 0
#define request_region(start, count, name) ((void *)1)
#define release_region(start, count) do {} while (0)
#define printk rtl_printf
#define rt_printk rtl_printf
#define rtl_cprintf rtl_printf
#define KERN_EMERG ""
#define KERN_ALERT ""
#define KERN_CRIT ""
#define KERN_ERR ""
#define KERN_WARNING ""
#define KERN_NOTICE ""
#define KERN_INFO ""
#define KERN_DEBUG ""
#define GFP_KERNEL 0
#define GFP_ATOMIC 0
#define GFP_USER 0
#define kmalloc(size, flags) rtl_kmalloc(size)
#define kfree(memory) rtl_kfree(memory)
#define vmalloc(size) rtl_kmalloc(size)
#define vfree(memory) rtl_kfree(memory)
#define PAGE_OFFSET 0xc0000000UL
#define asmlinkage
#define __init
#define __exit
#define __initdata
#define EXPORT_NO_SYMBOLS extern int rtl_no_symbols
#define EXPORT_SYMBOL(name) extern int rtl_no_symbols
#define MODULE_AUTHOR(text) extern int rtl_no_symbols
#define MODULE_DESCRIPTION(text) extern int rtl_no_symbols
#define MODULE_LICENSE(text) extern int rtl_no_symbols
#define MODULE_SUPPORTED_DEVICE(text) extern int rtl_no_symbols
#define MODULE_PARM_DESC(variable, text) extern int rtl_no_symbols
/* A parameter is found by a pointer that the assembler makes: programs declare parameters before their variables too, and
 * variables that are static. For those the compiler is told by an option that it does not see everything. */
#define MODULE_PARM(variable, kind) \
    __asm__(".pushsection .data.rel.local,\"aw\"\n" \
            ".globl rtl_parameter_" #variable "\n" \
            ".balign 8\n" \
            ".type rtl_parameter_" #variable ",@object\n" \
            ".size rtl_parameter_" #variable ",8\n" \
            "rtl_parameter_" #variable ":\n" \
            ".quad " #variable "\n" \
            ".popsection"); \
    const char rtl_parameter_kind_##variable[] = kind
#define MOD_INC_USE_COUNT do {} while (0)
#define MOD_DEC_USE_COUNT do {} while (0)
#define module_init(function) int init_module(void) { return function(); } extern int rtl_no_symbols
#define module_exit(function) void cleanup_module(void) { function(); } extern int rtl_no_symbols
#define THIS_MODULE ((void *)0)

/* Ports are latches of the host. */
#undef inb
#undef inw
#undef inl
#undef outb
#undef outw
#undef outl
#define inb(port) ((unsigned char)rtl_port_read((port), 1))
#define inw(port) ((unsigned short)rtl_port_read((port), 2))
#define inl(port) rtl_port_read((port), 4)
#define inb_p(port) inb(port)
#define outb(value, port) rtl_port_write((port), (unsigned char)(value), 1)
#define outw(value, port) rtl_port_write((port), (unsigned short)(value), 2)
#define outl(value, port) rtl_port_write((port), (unsigned)(value), 4)
#define outb_p(value, port) outb(value, port)
/* The speaker's channel of the timer chip is nobody else's. */
#define I8253_channel2_free() 1
#define rtl_inb(port) inb(port)
#define rtl_outb(value, port) outb(value, port)
#define CMOS_READ(address) (outb((address), 0x70), inb(0x71))
#define CMOS_WRITE(value, address) (outb((address), 0x70), outb((value), 0x71))
/* What only the kernel has: calling it does not compile. */
#define request_irq(arguments...) rtl_linux_irq()
#define free_irq(arguments...) ((void)rtl_linux_irq())
#define ioremap(start, size) rtl_device_memory()
#define ioremap_nocache(start, size) rtl_device_memory()
#define iounmap(memory) ((void)rtl_device_memory())
#define virt_to_phys(memory) ((unsigned long)rtl_device_memory())
#define phys_to_virt(address) rtl_device_memory()
#define virt_to_bus(memory) ((unsigned long)rtl_device_memory())
#define kernel_thread(arguments...) rtl_linux_thread()
#define daemonize(arguments...) ((void)rtl_linux_thread())
#define current freehold_rtl_left_out_a_module_here_has_no_current_process_of_the_Linux_kernel
#define wait_queue_head_t freehold_rtl_left_out_wait_queues_are_the_Linux_kernels_use_a_semaphore_or_a_FIFO
#define copy_to_user(to, from, count) rtl_user_memory()
#define copy_from_user(to, from, count) rtl_user_memory()
#undef mmap
#define mmap(arguments...) rtl_device_memory()
#define do_softirq rtl_do_softirq
#define RTC_REG_A 10
#define RTC_REG_B 11
#define RTC_REG_C 12
#define RTC_REG_D 13
#define RTC_PIE 0x40
#endif
