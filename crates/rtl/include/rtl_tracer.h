/* The tracer's calls. What a program traces goes nowhere, but costs what its arguments cost: perf and
 * `freehold latency --events` show what the kernel does, `rtl_printf` what the program does. */
#ifndef FREEHOLD_RTL_TRACER_H
#define FREEHOLD_RTL_TRACER_H
#include <freehold_rtl.h>
#define RTL_TRACE_USER 0x80000000
#define RTL_TRACE_FINALIZE 0x40000000
#define rtl_trace(event, data) ((void)(event), (void)(data))
#define rtl_trace2(event, data) ((void)(event), (void)(data))
#endif
