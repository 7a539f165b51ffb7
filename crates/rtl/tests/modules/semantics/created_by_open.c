/* A FIFO that `open` creates: it is there afterwards, can be made larger, and nobody creates it again. */
#include <rtl.h>
#include <rtl_fifo.h>
#include <fcntl.h>
#include <unistd.h>
#include <errno.h>

static char block[8192], more[8193];

int init_module(void)
{
    int descriptor;
    rtl_printf("none: %s\n", open("/dev/rtf44", O_WRONLY | O_NONBLOCK) == -1 && errno == ENODEV ? "ENODEV" : "?");
    rtl_printf("would wait: %s\n", open("/dev/rtf44", O_WRONLY | O_CREAT) == -1 && errno == EACCES ? "EACCES" : "?");
    descriptor = open("/dev/rtf44", O_WRONLY | O_NONBLOCK | O_CREAT);
    rtl_printf("open: %s\n", descriptor >= 0 ? "yes" : "?");
    rtl_printf("create: %s\n", rtf_create(44, 100) == -EBUSY ? "EBUSY" : "?");
    rtl_printf("write: %d\n", (int)write(descriptor, block, sizeof block));
    rtl_printf("read: %d\n", rtf_get(44, block, sizeof block));
    rtl_printf("too much: %s\n", write(descriptor, more, sizeof more) == -1 && errno == ENOSPC ? "ENOSPC" : "?");
    rtl_printf("larger: %d\n", ioctl(descriptor, RTF_SETSIZE, sizeof more));
    rtl_printf("write: %d\n", (int)write(descriptor, more, sizeof more));
    rtl_printf("beyond: %s\n", open("/dev/rtf64", O_NONBLOCK | O_CREAT) == -1 && errno == ENODEV ? "ENODEV" : "?");
    rtl_printf("close: %d\n", close(descriptor));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void)
{
    rtf_destroy(44);
}
