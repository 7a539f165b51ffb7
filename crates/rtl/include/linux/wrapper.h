/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: linux/wrapper.h is left out: pages of the Linux kernel cannot be mapped into processes here; use mbuff_alloc"
