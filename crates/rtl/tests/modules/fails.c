/* Its init_module fails with the value that it is given. */
#include <rtl.h>
#include <linux/module.h>
static int value = -5;
MODULE_PARM(value, "i");
int init_module(void) { return value; }
void cleanup_module(void) {}
