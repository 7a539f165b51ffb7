/* See linux/rt_sched.h. */
#include <linux/rt_sched.h>
