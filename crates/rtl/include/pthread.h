/* See freehold_rtl.h. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <pthread.h>
#else
#include <freehold_rtl.h>
#endif
