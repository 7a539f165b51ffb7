/* Not a module. */
#include <rtl.h>
int something(void) { return gethrtime() > 0; }
