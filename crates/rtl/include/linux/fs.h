/* Left out by design: see docs/book/src/rtlinux.md. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <linux/fs.h>
#else
#error "freehold rtl: linux/fs.h is left out: a module here cannot register devices of the Linux kernel; use a FIFO"
#endif
