/* Left out by design: see docs/book/src/rtlinux.md. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <linux/poll.h>
#else
#error "freehold rtl: linux/poll.h is left out: a module here cannot register devices of the Linux kernel; use a FIFO, whose file can be polled"
#endif
