/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: linux/tqueue.h is left out: task queues belong to the Linux kernel; use a thread, or rtl_get_soft_irq"
