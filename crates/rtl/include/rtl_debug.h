/* Messages for debugging, and what comes only first, or now and then. A breakpoint does nothing: there is no debugger
 * of RTLinux that would take it. */
#ifndef FREEHOLD_RTL_DEBUG_H
#define FREEHOLD_RTL_DEBUG_H
#include <freehold_rtl.h>
#define do_first(count) if (({ static int rtl_left = (count); rtl_left-- > 0; }))
#define do_every(count) if (({ static unsigned rtl_turn; rtl_turn++ % (count) == 0; }))
#ifdef RTL_DEBUG_PRINT
#define debugpr(format, arguments...) rtl_printf(format, ##arguments)
#else
#define debugpr(format, arguments...) do {} while (0)
#endif
#define breakpoint() do {} while (0)
#endif
