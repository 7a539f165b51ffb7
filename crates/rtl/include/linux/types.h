/* See freehold_rtl.h; and the kernel's short names of numbers. */
#ifdef FREEHOLD_RTL_SYSTEM
#include_next <linux/types.h>
#elif !defined(FREEHOLD_RTL_TYPES_H)
#define FREEHOLD_RTL_TYPES_H
#include <freehold_rtl.h>
#include_next <linux/types.h>
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
#endif
