/* Calls what nobody has. */
#include <rtl.h>
int init_module(void) { return function_of_nobody() + other_function_of_nobody(); }
