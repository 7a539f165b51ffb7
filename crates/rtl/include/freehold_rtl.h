/* The RTLinux API for programs compiled by `freehold rtl cc`. The headers under the original names all include this
 * one. It includes the system's headers first, then renames what differs to `rtl_...`, so that a program's own text
 * stays as it is. Only functions are imported: an object that imports data cannot be loaded into both spaces. */
#ifndef FREEHOLD_RTL_H
#define FREEHOLD_RTL_H

#define FREEHOLD_RTL_SYSTEM 1
/* Functions of the C library's that the kernel does not have: modules give these names to their own things. */
#define access rtl_system_access
#define clock rtl_system_clock
#define daemon rtl_system_daemon
#define div rtl_system_div
#define index rtl_system_index
#define link rtl_system_link
#define nice rtl_system_nice
#define pause rtl_system_pause
#define pipe rtl_system_pipe
#define random rtl_system_random
#define remove rtl_system_remove
#define rename rtl_system_rename
#define rindex rtl_system_rindex
#define select rtl_system_select
#define signal rtl_system_signal
#define sync rtl_system_sync
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#undef access
#undef clock
#undef daemon
#undef div
#undef index
#undef link
#undef nice
#undef pause
#undef pipe
#undef random
#undef remove
#undef rename
#undef rindex
#undef select
#undef signal
#undef sync
#undef FREEHOLD_RTL_SYSTEM

/* A function that cannot be had: calling it does not compile, and the compiler says why. */
#define RTL_LEFT_OUT(reason) __attribute__((error("freehold rtl: left out: " reason)))

/* ---- time: rtl_time.h, time.h ---- */
typedef long long hrtime_t;
#define HRTIME_INFINITY 0x7fffffffffffffffLL
#define HRTICKS_PER_SEC 1000000000LL
#define NSECS_PER_SEC 1000000000LL
/* Ticks of the 8254 chip, in which version 1 counts. */
#define HRT_FROM_NS(time) (time)
#define HRT_FROM_8254(ticks) ((hrtime_t)(ticks) * 838)
#define HRT_TO_8254(time) ((hrtime_t)(time) / 838)

struct rtl_clock {
    hrtime_t (*gethrtime)(struct rtl_clock *);
    hrtime_t resolution;
    int mode;
    int number;
};
typedef struct rtl_clock *rtl_clockid_t;

extern struct rtl_clock *rtl_clock_by_number(int number);
extern hrtime_t rtl_gethrtime(void);
extern hrtime_t rtl_gethrtimeres(void);
extern hrtime_t rtl_clock_gethrtime(rtl_clockid_t clock);
extern int rtl_clock_gettime(rtl_clockid_t clock, struct timespec *time);
extern int rtl_clock_settime(rtl_clockid_t clock, const struct timespec *time);
extern int rtl_clock_getres(rtl_clockid_t clock, struct timespec *time);
extern int rtl_clock_nanosleep(rtl_clockid_t clock, int flags, const struct timespec *time, struct timespec *rest);
extern int rtl_nanosleep(const struct timespec *time, struct timespec *rest);
extern int rtl_usleep(unsigned long microseconds);
extern unsigned rtl_sleep(unsigned seconds);
extern void rtl_delay(long nanoseconds);
extern long rtl_schedule_timeout(long ticks);
extern unsigned long rtl_jiffies(void);
extern int rtl_setclockmode(rtl_clockid_t clock, int mode, hrtime_t period);
extern struct timespec *rtl_hrt2ts(hrtime_t time);
#define RTL_CLOCK_MODE_UNINITIALIZED 1
#define RTL_CLOCK_MODE_ONESHOT 2
#define RTL_CLOCK_MODE_PERIODIC 3

extern struct rtl_clock *rtl_getbestclock(unsigned cpu)
    RTL_LEFT_OUT("raw clocks program the timer chip; use clock_gethrtime, pthread_make_periodic_np or timers");
extern int rtl_setclockhandler(void *clock, void *handler)
    RTL_LEFT_OUT("raw clocks program the timer chip; use a periodic thread or request line 0");
extern int rtl_unsetclockhandler(void *clock)
    RTL_LEFT_OUT("raw clocks program the timer chip; use a periodic thread or request line 0");

/* POSIX timers, which send RTLinux's own signals to the thread that creates them. */
typedef int rtl_timer_t;
extern int rtl_timer_create(rtl_clockid_t clock, const struct sigevent *event, rtl_timer_t *timer);
extern int rtl_timer_delete(rtl_timer_t timer);
extern int rtl_timer_settime(rtl_timer_t timer, int flags, const struct itimerspec *time, struct itimerspec *before);
extern int rtl_timer_gettime(rtl_timer_t timer, struct itimerspec *time);
extern int rtl_timer_getoverrun(rtl_timer_t timer);

#define hrt2ts(time) rtl_hrt2ts(time)
#define timespec_to_ns(ts) ((hrtime_t)(ts)->tv_sec * NSECS_PER_SEC + (ts)->tv_nsec)
#define timespec_from_ns(ns) (*rtl_hrt2ts(ns))
#define timespec_normalize(t) do { \
        if ((t)->tv_nsec >= NSECS_PER_SEC) { (t)->tv_nsec -= NSECS_PER_SEC; (t)->tv_sec++; } \
        else if ((t)->tv_nsec < 0) { (t)->tv_nsec += NSECS_PER_SEC; (t)->tv_sec--; } \
    } while (0)
#define timespec_add(t1, t2) do { \
        (t1)->tv_nsec += (t2)->tv_nsec; (t1)->tv_sec += (t2)->tv_sec; timespec_normalize(t1); \
    } while (0)
#define timespec_sub(t1, t2) do { \
        (t1)->tv_nsec -= (t2)->tv_nsec; (t1)->tv_sec -= (t2)->tv_sec; timespec_normalize(t1); \
    } while (0)
#define timespec_add_ns(t, n) do { \
        hrtime_t rtl_sum = timespec_to_ns(t) + (n); \
        (t)->tv_sec = rtl_sum / NSECS_PER_SEC; (t)->tv_nsec = rtl_sum % NSECS_PER_SEC; \
    } while (0)
#define timespec_nz(t) ((t)->tv_sec != 0 || (t)->tv_nsec != 0)
#define timespec_lt(a, b) (timespec_to_ns(a) < timespec_to_ns(b))
#define timespec_gt(a, b) (timespec_to_ns(a) > timespec_to_ns(b))
#define timespec_ge(a, b) (timespec_to_ns(a) >= timespec_to_ns(b))
#define timespec_le(a, b) (timespec_to_ns(a) <= timespec_to_ns(b))
#define timespec_eq(a, b) (timespec_to_ns(a) == timespec_to_ns(b))

#if defined(__x86_64__) || defined(__i386__)
#define rdtsc(low, high) __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high))
#define rdtscl(low) do { unsigned rtl_high; __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(rtl_high)); } while (0)
#define rdtscll(value) do { \
        unsigned rtl_low, rtl_high; __asm__ __volatile__("rdtsc" : "=a"(rtl_low), "=d"(rtl_high)); \
        (value) = ((unsigned long long)rtl_high << 32) | rtl_low; \
    } while (0)
#endif

/* ---- threads: rtl_sched.h, pthread.h ---- */
#define RTL_THREAD_MAGIC 0x52544c54
struct rtl_thread_struct { int magic; };
typedef struct rtl_thread_struct *rtl_pthread_t;
typedef struct rtl_thread_struct RTL_THREAD_STRUCT;
typedef struct rtl_thread_struct rtl_thread_t;
typedef struct {
    void *stack_addr;
    int stack_size;
    int detachstate;
    int cpu;
    int use_fp;
    int policy;
    struct sched_param sched_param;
} rtl_pthread_attr_t;

struct rtl_cleanup { void (*routine)(void *); void *argument; struct rtl_cleanup *previous; };

typedef struct sched_param rtl_sched_param;

#define RTL_PTHREAD_STACK_MIN 16384
#define RTL_SCHED_MAX_PRIORITY 1000000

extern int rtl_pthread_attr_init(rtl_pthread_attr_t *);
extern int rtl_pthread_attr_destroy(rtl_pthread_attr_t *);
extern int rtl_pthread_attr_setstacksize(rtl_pthread_attr_t *, size_t);
extern int rtl_pthread_attr_getstacksize(const rtl_pthread_attr_t *, size_t *);
extern int rtl_pthread_attr_setstackaddr(rtl_pthread_attr_t *, void *);
extern int rtl_pthread_attr_getstackaddr(const rtl_pthread_attr_t *, void **);
extern int rtl_pthread_attr_setdetachstate(rtl_pthread_attr_t *, int);
extern int rtl_pthread_attr_getdetachstate(const rtl_pthread_attr_t *, int *);
extern int rtl_pthread_attr_setschedparam(rtl_pthread_attr_t *, const struct sched_param *);
extern int rtl_pthread_attr_getschedparam(const rtl_pthread_attr_t *, struct sched_param *);
extern int rtl_pthread_attr_setschedpolicy(rtl_pthread_attr_t *, int);
extern int rtl_pthread_attr_getschedpolicy(const rtl_pthread_attr_t *, int *);
extern int rtl_pthread_attr_setcpu_np(rtl_pthread_attr_t *, int);
extern int rtl_pthread_attr_getcpu_np(const rtl_pthread_attr_t *, int *);
extern int rtl_pthread_attr_setfp_np(rtl_pthread_attr_t *, int);
extern int rtl_pthread_create(rtl_pthread_t *, const rtl_pthread_attr_t *, void *(*)(void *), void *);
extern rtl_pthread_t rtl_pthread_self(void);
extern int rtl_pthread_equal(rtl_pthread_t, rtl_pthread_t);
extern void rtl_pthread_exit(void *) __attribute__((noreturn));
extern int rtl_pthread_join(rtl_pthread_t, void *place, size_t bytes);
extern int rtl_pthread_detach(rtl_pthread_t);
extern int rtl_pthread_cancel(rtl_pthread_t);
extern void rtl_pthread_testcancel(void);
extern int rtl_pthread_setcancelstate(int, int *);
extern int rtl_pthread_setcanceltype(int, int *);
extern void rtl_cleanup_push(struct rtl_cleanup *);
extern void rtl_cleanup_pop(struct rtl_cleanup *, int);
extern int rtl_pthread_setschedparam(rtl_pthread_t, int, const struct sched_param *);
extern int rtl_pthread_getschedparam(rtl_pthread_t, int *, struct sched_param *);
extern int rtl_pthread_make_periodic_np(rtl_pthread_t, hrtime_t, hrtime_t);
extern int rtl_pthread_wait_np(void);
extern int rtl_pthread_suspend_np(rtl_pthread_t);
extern int rtl_pthread_wakeup_np(rtl_pthread_t);
extern int rtl_pthread_delete_np(rtl_pthread_t);
extern int rtl_pthread_setfp_np(rtl_pthread_t, int);
extern int rtl_pthread_setperiod_np(rtl_pthread_t, const struct itimerspec *);
extern int rtl_pthread_getcpu_np(rtl_pthread_t);
extern rtl_pthread_t rtl_pthread_linux(void);
extern int rtl_sched_get_priority_max(int);
extern int rtl_sched_get_priority_min(int);
extern int rtl_sched_yield(void);
extern int rtl_schedule(void);
extern void rtl_mark_suspended(rtl_pthread_t);
#define RTL_MARK_SUSPENDED(thread) rtl_mark_suspended(thread)
#define RTL_MARK_READY(thread) rtl_pthread_wakeup_np(thread)
extern int rtl_getcpuid(void);
extern int rtl_cpu_exists(int);
extern int rtl_num_cpus(void);

/* ---- signals: signal.h, rtl_sched.h ---- */
typedef unsigned long rtl_sigset_t;
struct rtl_sigaction {
    union { void (*rtl_handler)(int); void (*rtl_action)(int, void *, void *); } rtl_u;
    rtl_sigset_t sa_mask;
    unsigned long sa_flags;
    int sa_focus;
};
#define RTL_SIGNAL_NULL 0
#define RTL_SIGNAL_WAKEUP 1
#define RTL_SIGNAL_CANCEL 2
#define RTL_SIGNAL_SUSPEND 3
#define RTL_SIGNAL_TIMER 5
#define RTL_SIGNAL_READY 6
#define RTL_SIGUSR1 7
#define RTL_SIGUSR2 8
#define RTL_SIGRTMIN 9
#define RTL_SIGRTMAX 31
#define RTL_MAX_SIGNAL 31
/* From here on a signal is an interrupt line's. */
#define RTL_SIGIRQMIN 64
#define RTL_LINUX_MIN_SIGNAL 256
extern int rtl_pthread_kill(rtl_pthread_t, int);
extern int rtl_raise(int);
extern int rtl_sigaction(int, const struct rtl_sigaction *, struct rtl_sigaction *);
extern int rtl_sigprocmask(int, const rtl_sigset_t *, rtl_sigset_t *);
extern int rtl_sigpending(rtl_sigset_t *);
extern int rtl_sigsuspend(const rtl_sigset_t *);
#define rtl_sigemptyset(set) ((void)(*(set) = 0UL), 0)
#define rtl_sigfillset(set) ((void)(*(set) = ~0UL), 0)
#define rtl_sigaddset(set, signal) ((void)(*(set) |= 1UL << (signal)), 0)
#define rtl_sigdelset(set, signal) ((void)(*(set) &= ~(1UL << (signal))), 0)
#define rtl_sigismember(set, signal) ((int)((*(set) >> (signal)) & 1UL))

/* ---- locks: pthread.h, semaphore.h, rtl_sema.h, rtl_spinlock.h ---- */
typedef struct { unsigned word; int type; int protocol; int ceiling; } rtl_pthread_mutex_t;
typedef struct { int type; int protocol; int ceiling; int shared; } rtl_pthread_mutexattr_t;
typedef struct { unsigned sequence; unsigned waiters; } rtl_pthread_cond_t;
typedef struct { int unused; } rtl_pthread_condattr_t;
typedef struct { unsigned value; unsigned waiters; } rtl_sem_t;
typedef struct { unsigned word; } rtl_pthread_spinlock_t;
typedef struct { unsigned word; unsigned count; unsigned arrived; unsigned sequence; unsigned waiters; } rtl_barrier_t;
typedef struct { int shared; } rtl_barrierattr_t;
extern int rtl_pthread_mutexattr_init(rtl_pthread_mutexattr_t *);
extern int rtl_pthread_mutexattr_destroy(rtl_pthread_mutexattr_t *);
extern int rtl_pthread_mutexattr_settype(rtl_pthread_mutexattr_t *, int);
extern int rtl_pthread_mutexattr_gettype(const rtl_pthread_mutexattr_t *, int *);
extern int rtl_pthread_mutexattr_setprotocol(rtl_pthread_mutexattr_t *, int);
extern int rtl_pthread_mutexattr_getprotocol(const rtl_pthread_mutexattr_t *, int *);
extern int rtl_pthread_mutexattr_setprioceiling(rtl_pthread_mutexattr_t *, int);
extern int rtl_pthread_mutexattr_getprioceiling(const rtl_pthread_mutexattr_t *, int *);
extern int rtl_pthread_mutexattr_setpshared(rtl_pthread_mutexattr_t *, int);
extern int rtl_pthread_mutexattr_getpshared(const rtl_pthread_mutexattr_t *, int *);
extern int rtl_pthread_mutex_init(rtl_pthread_mutex_t *, const rtl_pthread_mutexattr_t *);
extern int rtl_pthread_mutex_destroy(rtl_pthread_mutex_t *);
extern int rtl_pthread_mutex_lock(rtl_pthread_mutex_t *);
extern int rtl_pthread_mutex_trylock(rtl_pthread_mutex_t *);
extern int rtl_pthread_mutex_timedlock(rtl_pthread_mutex_t *, const struct timespec *);
extern int rtl_pthread_mutex_unlock(rtl_pthread_mutex_t *);
extern int rtl_pthread_cond_init(rtl_pthread_cond_t *, const rtl_pthread_condattr_t *);
extern int rtl_pthread_cond_destroy(rtl_pthread_cond_t *);
extern int rtl_pthread_cond_wait(rtl_pthread_cond_t *, rtl_pthread_mutex_t *);
extern int rtl_pthread_cond_timedwait(rtl_pthread_cond_t *, rtl_pthread_mutex_t *, const struct timespec *);
extern int rtl_pthread_cond_signal(rtl_pthread_cond_t *);
extern int rtl_pthread_cond_broadcast(rtl_pthread_cond_t *);
extern int rtl_barrier_init(rtl_barrier_t *, const rtl_barrierattr_t *, unsigned);
extern int rtl_barrier_destroy(rtl_barrier_t *);
extern int rtl_barrier_wait(rtl_barrier_t *);
extern int rtl_sem_init(rtl_sem_t *, int, unsigned);
extern int rtl_sem_destroy(rtl_sem_t *);
extern int rtl_sem_wait(rtl_sem_t *);
extern int rtl_sem_trywait(rtl_sem_t *);
extern int rtl_sem_timedwait(rtl_sem_t *, const struct timespec *);
extern int rtl_sem_post(rtl_sem_t *);
extern int rtl_sem_getvalue(rtl_sem_t *, int *);
typedef unsigned long rtl_irqstate_t;
extern unsigned rtl_exclude(void);
extern void rtl_admit(unsigned depth);
extern void rtl_admit_once(void);
extern int rtl_spin_init(rtl_pthread_spinlock_t *, int);
extern int rtl_spin_destroy(rtl_pthread_spinlock_t *);
extern int rtl_spin_take(rtl_pthread_spinlock_t *);
extern int rtl_spin_try(rtl_pthread_spinlock_t *);
extern int rtl_spin_release(rtl_pthread_spinlock_t *);
/* The state is a small number: programs keep it in what they like, an `int` too. */
#define rtl_no_interrupts(state) ((void)((state) = rtl_exclude()))
#define rtl_restore_interrupts(state) rtl_admit((unsigned)(state))
#define rtl_stop_interrupts() ((void)rtl_exclude())
#define rtl_allow_interrupts() rtl_admit_once()
#define rtl_spin_lock(lock) rtl_spin_take((rtl_pthread_spinlock_t *)(lock))
#define rtl_spin_unlock(lock) rtl_spin_release((rtl_pthread_spinlock_t *)(lock))
#define rtl_spin_lock_irqsave(lock, flags) \
    do { (flags) = rtl_exclude(); rtl_spin_take((rtl_pthread_spinlock_t *)(lock)); } while (0)
#define rtl_spin_unlock_irqrestore(lock, flags) \
    do { rtl_spin_release((rtl_pthread_spinlock_t *)(lock)); rtl_admit((unsigned)(flags)); } while (0)

/* ---- FIFOs: rtl_fifo.h; POSIX input and output on /dev/rtfN ---- */
#define RTF_NO 64
#define RTF_SETSIZE 1
extern int rtf_create(unsigned fifo, int size);
extern int rtf_destroy(unsigned fifo);
extern int rtf_put(unsigned fifo, const void *buffer, int count);
extern int rtf_get(unsigned fifo, void *buffer, int count);
extern int rtf_flush(unsigned fifo);
extern int rtf_isempty(unsigned fifo);
extern int rtf_isused(unsigned fifo);
extern int rtf_create_handler(unsigned fifo, int (*handler)(unsigned));
extern int rtf_create_rt_handler(unsigned fifo, int (*handler)(unsigned));
extern int rtf_make_user_pair(unsigned get, unsigned put);
extern int rtl_open(const char *path, int flags);
extern long rtl_read(int descriptor, void *buffer, size_t count);
extern long rtl_write(int descriptor, const void *buffer, size_t count);
extern int rtl_close(int descriptor);
extern int rtl_ioctl(int descriptor, unsigned long request, long argument);

/* ---- memory: linux/malloc.h; shared with processes: mbuff.h ---- */
extern void *rtl_kmalloc(size_t size);
extern void rtl_kfree(const void *memory);
extern void *rtl_mbuff_alloc(const char *name, int size);
extern void *rtl_mbuff_attach(const char *name, int size);
extern int rtl_mbuff_free(const char *name, void *memory);

/* ---- interrupts and ports: rtl_core.h, asm/io.h ---- */
struct pt_regs;
extern int rtl_request_irq(unsigned line, unsigned (*handler)(unsigned, struct pt_regs *));
extern int rtl_free_irq(unsigned line);
extern int rtl_hard_enable_irq(unsigned line);
extern int rtl_hard_disable_irq(unsigned line);
extern void rtl_global_pend_irq(int line);
extern int rtl_get_soft_irq(void (*handler)(int, void *, struct pt_regs *), const char *name);
extern void rtl_free_soft_irq(unsigned line);
extern int rtl_irq_set_affinity(unsigned line, const unsigned long *cpus, unsigned long *before);
#define rtl_request_global_irq(line, handler) rtl_request_irq((line), (handler))
#define rtl_free_global_irq(line) rtl_free_irq(line)
/* Version 1 has no function that turns a line on: it is on from the request on. */
#define request_RTirq(line, handler) \
    (rtl_request_irq((line), (unsigned (*)(unsigned, struct pt_regs *))(handler)) ?: rtl_hard_enable_irq(line))
#define free_RTirq(line) rtl_free_irq(line)
/* Handlers of soft lines run in a thread of their own: there is nothing to be pushed on. */
extern void rtl_do_softirq(void);
extern int rtl_linux_irq(void) RTL_LEFT_OUT("interrupts of the Linux kernel are not a module's; use rtl_request_irq");
extern void *rtl_device_memory(void) RTL_LEFT_OUT("memory of devices is not reached; use mbuff_alloc, or ports");
extern int rtl_linux_thread(void) RTL_LEFT_OUT("a module here is no part of the Linux kernel; use pthread_create");
extern int rtl_user_memory(void)
    RTL_LEFT_OUT("a module here has no calling process whose memory it could copy; use a FIFO or mbuff_alloc");
extern unsigned rtl_port_read(unsigned port, int bytes);
extern void rtl_port_write(unsigned port, unsigned value, int bytes);

/* ---- output and modules: rtl_printf.h, linux/module.h, linux/kernel.h ---- */
extern void rtl_log(const char *text, int length);
static __inline__ int __attribute__((format(printf, 1, 2), unused)) rtl_printf(const char *format, ...)
{
    char text[512];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 1) length = (int)sizeof text - 1;
    if (length > 0) rtl_log(text, length);
    return length;
}
#define conprn(number) rtl_printf("%d ", (int)(number))
#define conpr(text) rtl_printf("%s", (text))

#include <freehold_rtl_v1.h>
#include <freehold_rtl_names.h>
#endif
