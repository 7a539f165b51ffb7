/* See freehold_rtl.h. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <linux/version.h>
#else
#include <freehold_rtl.h>
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(2, 4, 18)
#define UTS_RELEASE "2.4.18"
#endif
