/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: linux/kthread.h is left out: a module here is no part of the Linux kernel; use pthread_create"
