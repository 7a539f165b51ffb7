//! In place of the unwinder of the compiler's library: a panic here ends the program.
//!
//! Nothing in this library panics on purpose, but compiled code refers to the unwinder, and the dynamic linker would
//! load `libgcc_s.so.1` into every program for that. Hidden, like the symbols in `memory`.

use core::arch::global_asm;

global_asm!(
    ".macro absent name",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    "\\name: ud2",
    ".endm",
    ".text",
    "absent _Unwind_Backtrace",
    "absent _Unwind_DeleteException",
    "absent _Unwind_FindEnclosingFunction",
    "absent _Unwind_GetCFA",
    "absent _Unwind_GetDataRelBase",
    "absent _Unwind_GetIP",
    "absent _Unwind_GetIPInfo",
    "absent _Unwind_GetLanguageSpecificData",
    "absent _Unwind_GetRegionStart",
    "absent _Unwind_GetTextRelBase",
    "absent _Unwind_RaiseException",
    "absent _Unwind_Resume",
    "absent _Unwind_SetGR",
    "absent _Unwind_SetIP",
    ".purgem absent",
);
