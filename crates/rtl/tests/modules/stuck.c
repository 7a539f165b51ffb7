/* Its cleanup_module does not end. */
#include <rtl.h>
#include <pthread.h>
int init_module(void) { return 0; }
void cleanup_module(void) { while (1) usleep(1000); }
