/* Period 0 is one release at a time. A thread sets its next one itself. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>

pthread_t thread;

void *shots(void *arg)
{
    int i;
    hrtime_t due;
    for (i = 1; i <= 4; i++) {
        due = gethrtime() + i * 1000000;
        if (pthread_make_periodic_np(pthread_self(), due, 0) != 0) rtl_printf("refused\n");
        pthread_wait_np();
        rtl_printf("shot %d %s\n", i, gethrtime() >= due ? "is not early" : "is early");
    }
    rtl_printf("done\n");
    return 0;
}

int init_module(void) { return pthread_create(&thread, NULL, shots, 0); }
void cleanup_module(void) { pthread_delete_np(thread); }
