/* POSIX input and output on a FIFO's file name, from a real-time thread. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_fifo.h>
#include <fcntl.h>
#include <unistd.h>
#include <errno.h>
#include <sys/ioctl.h>

pthread_t thread;

void *io(void *arg)
{
    char buffer[16];
    int fd, n;
    rtl_printf("open that would wait: %s\n", open("/dev/rtf7", O_RDWR) == -1 && errno == EACCES ? "EACCES" : "?");
    rtl_printf("open of none: %s\n", open("/dev/rtf63", O_RDWR | O_NONBLOCK) == -1 && errno == ENODEV ? "ENODEV" : "?");
    rtl_printf("/dev/mem: %s\n", open("/dev/mem", O_RDWR) == -1 && errno == EACCES ? "EACCES" : "?");
    fd = open("/dev/rtf7", O_RDWR | O_NONBLOCK);
    rtl_printf("set size: %d\n", ioctl(fd, RTF_SETSIZE, 8));
    rtl_printf("write: %d\n", (int)write(fd, "12345678", 8));
    rtl_printf("write to a full one: %s\n", write(fd, "9", 1) == -1 && errno == ENOSPC ? "ENOSPC" : "?");
    rtl_printf("%d can be read\n", (ioctl(fd, FIONREAD, &n), n));
    n = read(fd, buffer, sizeof buffer);
    buffer[n > 0 ? n : 0] = 0;
    rtl_printf("read %d: %s\n", n, buffer);
    rtl_printf("read of an empty one: %d\n", (int)read(fd, buffer, sizeof buffer));
    rtl_printf("close: %d\n", close(fd));
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    if (rtf_create(7, 100) < 0) return -1;
    return pthread_create(&thread, NULL, io, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(thread);
    rtf_destroy(7);
}
