/* Left out by design: see docs/book/src/rtlinux.md. */
#error "freehold rtl: rtl_tracer.h is left out: the tracer of RTLinux is not here; use perf or freehold latency --events"
