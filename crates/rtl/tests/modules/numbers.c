/* What mistakes with FIFOs and their descriptors are answered by: each line a number, and errno where it is set. */
#include <rtl.h>
#include <rtl_fifo.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define FIFO 40
#define NOT_CREATED 41

static void say(const char *what, int answer)
{
    rtl_printf("%s: %d %d\n", what, answer, answer < 0 ? errno : 0);
    errno = 0;
}

static int handler(unsigned fifo) { return 0; }

int init_module(void)
{
    char text[16] = "0123456789abcdef";
    int descriptor, second;
    errno = 0;
    say("create out of range", rtf_create(RTF_NO, 100));
    say("create of no size", rtf_create(FIFO, 0));
    say("create of less than no size", rtf_create(FIFO, -1));
    say("create", rtf_create(FIFO, 10));
    say("create twice", rtf_create(FIFO, 10));
    say("put out of range", rtf_put(RTF_NO, text, 1));
    say("put not created", rtf_put(NOT_CREATED, text, 1));
    say("get out of range", rtf_get(RTF_NO, text, 1));
    say("get not created", rtf_get(NOT_CREATED, text, 1));
    say("destroy out of range", rtf_destroy(RTF_NO));
    say("destroy not created", rtf_destroy(NOT_CREATED));
    say("put more than fits", rtf_put(FIFO, text, 11));
    say("nothing of it", rtf_get(FIFO, text, 16));
    say("put to the brim", rtf_put(FIFO, text, 10));
    say("put into the full", rtf_put(FIFO, text, 1));
    say("put of less than nothing", rtf_put(FIFO, text, -1));
    say("handler of none", rtf_create_handler(FIFO, 0));
    say("handler not created", rtf_create_handler(NOT_CREATED, handler));
    say("open to wait", open("/dev/rtf40", O_RDWR));
    say("open not created", open("/dev/rtf41", O_RDWR | O_NONBLOCK));
    say("open another file", open("/dev/null", O_RDWR | O_NONBLOCK));
    say("open of memory", open("/dev/mem", O_RDWR | O_NONBLOCK));
    descriptor = open("/dev/rtf40", O_RDWR | O_NONBLOCK);
    second = open("/dev/rtf40", O_RDWR | O_NONBLOCK);
    say("write into the full", write(descriptor, text, 1));
    say("size of what is not empty", ioctl(descriptor, RTF_SETSIZE, 20));
    say("read", read(descriptor, text, 16));
    say("read of the empty", read(descriptor, text, 16));
    say("unknown ioctl", ioctl(descriptor, 12345, 0));
    say("close", close(descriptor));
    say("write by the other", write(second, text, 1));
    say("close the other", close(second));
    say("write closed", write(descriptor, text, 1));
    say("read closed", read(descriptor, text, 1));
    say("ioctl closed", ioctl(descriptor, RTF_SETSIZE, 20));
    say("close closed", close(descriptor));
    say("destroy", rtf_destroy(FIFO));
    return 0;
}

void cleanup_module(void) {}
