/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: linux/delay.h is left out: busy waits of the Linux kernel are not here; use rtl_delay or nanosleep"
