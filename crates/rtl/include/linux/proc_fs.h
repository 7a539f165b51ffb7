/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: linux/proc_fs.h is left out: a module here has no /proc entries; use a FIFO or mbuff"
