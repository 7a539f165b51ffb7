/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: linux/timer.h is left out: timers of the Linux kernel run in its interrupts; use timer_create or a periodic thread"
