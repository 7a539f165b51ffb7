/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: linux/interrupt.h is left out: tasklets and bottom halves belong to the Linux kernel; use a thread, or rtl_get_soft_irq"
