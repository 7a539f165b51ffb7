/* See freehold_rtl.h. */
#include <freehold_rtl.h>
