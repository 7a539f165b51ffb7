/* Calls what is left out. */
#include <rtl.h>
int init_module(void) { return rtl_getbestclock(0) != 0; }
