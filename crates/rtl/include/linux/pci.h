/* Left out by design: see docs/book/src/rtlinux.md. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <linux/pci.h>
#else
#error "freehold rtl: linux/pci.h is left out: no hardware is reached; ports are latches and lines are virtual (--port, --irq)"
#endif
