/* See freehold_rtl.h. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <linux/param.h>
#else
#include <freehold_rtl.h>
#endif
