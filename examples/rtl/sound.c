/* A process fills a FIFO with bytes of sound; a thread at 8192 Hz puts one bit of each out to the speaker. */
#include <rtl.h>
#include <rtl_fifo.h>
#include <time.h>
#include <pthread.h>
#include <asm/io.h>

pthread_t thread;

static int filter(int x)
{
    static int oldx;
    int ret;
    if (x & 0x80) x = 382 - x;
    ret = x > oldx;
    oldx = x;
    return ret;
}

void *play(void *arg)
{
    char data;
    int played = 0, high = 0, temp;
    pthread_make_periodic_np(pthread_self(), gethrtime(), NSECS_PER_SEC / 8192);
    while (played < 256) {
        pthread_wait_np();
        if (rtf_get(5, &data, 1) > 0) {
            temp = inb(0x61);
            temp &= 0xfc;
            if (filter(data & 0xff)) { temp |= 3; high++; }
            outb(temp, 0x61);
            played++;
        }
    }
    rtl_printf("played %d bytes, %d high, port %x\n", played, high, inb(0x61));
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    if (rtf_create(5, 4000) < 0) return -1;
    return pthread_create(&thread, NULL, play, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(thread);
    rtf_destroy(5);
}
