/* Left out by design: see docs/book/src/rtlinux.md. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <linux/sysctl.h>
#else
#error "freehold rtl: linux/sysctl.h is left out: a module here is no part of the Linux kernel; use module parameters"
#endif
