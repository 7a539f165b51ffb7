//! In place of the unwinder of the compiler's library: a panic here ends the program.
//!
//! Nothing in this library panics on purpose, but compiled code refers to the unwinder, and the dynamic linker would
//! load `libgcc_s.so.1` into every program for that. Hidden, like the symbols in `memory`.
//!
//! The program's own unwinder goes through this library's functions where a thread is cancelled in one of them, or a
//! signal handler ends it there. It asks the compiler's library what there is to do, which asks here: nothing.

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
    "absent _Unwind_GetTextRelBase",
    "absent _Unwind_RaiseException",
    "absent _Unwind_Resume",
    "absent _Unwind_SetGR",
    "absent _Unwind_SetIP",
    ".purgem absent",
    ".macro nothing name",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    "\\name: xor eax, eax",
    "ret",
    ".endm",
    "nothing _Unwind_GetIPInfo",
    "nothing _Unwind_GetLanguageSpecificData",
    "nothing _Unwind_GetRegionStart",
    ".purgem nothing",
);
