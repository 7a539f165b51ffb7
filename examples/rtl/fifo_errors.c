/* What the FIFO functions answer to mistakes, and the handler of the real-time side. */
#include <rtl.h>
#include <rtl_fifo.h>
#include <errno.h>

int called = 0;

int on_use(unsigned int fifo) { called++; return 0; }

int init_module(void)
{
    char buffer[16] = "0123456789";
    rtl_printf("create 64: %d\n", rtf_create(64, 100) == -ENODEV);
    rtl_printf("create of no size: %d\n", rtf_create(9, 0) == -ENOMEM);
    rtl_printf("put before create: %d\n", rtf_put(9, buffer, 4) == -EINVAL);
    rtl_printf("get before create: %d\n", rtf_get(9, buffer, 4) == -EINVAL);
    rtl_printf("destroy before create: %d\n", rtf_destroy(9) == -EINVAL);
    rtl_printf("handler before create: %d\n", rtf_create_handler(9, on_use) == -EINVAL);
    rtl_printf("create: %d\n", rtf_create(9, 10));
    rtl_printf("create again: %d\n", rtf_create(9, 10) == -EBUSY);
    rtl_printf("no handler: %d\n", rtf_create_handler(9, 0) == -EINVAL);
    rtl_printf("rt handler: %d\n", rtf_create_rt_handler(9, on_use));
    rtl_printf("put: %d\n", rtf_put(9, buffer, 8));
    rtl_printf("put of too much: %d\n", rtf_put(9, buffer, 3) == -ENOSPC);
    rtl_printf("get: %d\n", rtf_get(9, buffer, 16));
    rtl_printf("get of nothing: %d\n", rtf_get(9, buffer, 16));
    rtl_printf("flush: %d, empty: %d\n", rtf_flush(9), rtf_isempty(9));
    rtl_printf("handler called %d times\n", called);
    rtl_printf("put to 64: %d, destroy 64: %d\n", rtf_put(64, buffer, 1) == -ENODEV, rtf_destroy(64) == -ENODEV);
    rtl_printf("destroy: %d\n", rtf_destroy(9));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void) {}
