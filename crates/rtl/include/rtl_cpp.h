/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: rtl_cpp.h is left out: modules in C++ are not loaded; compile the sources as C"
