/* A square wave on the parallel port; what was written is read back. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <asm/io.h>

#define LPT 0x378

pthread_t thread;

void *wave(void *arg)
{
    int i, right = 0;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 500000);
    for (i = 0; i < 20; i++) {
        pthread_wait_np();
        outb(i & 1 ? 0xff : 0, LPT);
        right += inb(LPT) == (i & 1 ? 0xff : 0);
    }
    outw(0x1234, LPT);
    rtl_printf("%d of 20 read back, bytes %x %x\n", right, inb(LPT), inb(LPT + 1));
    rtl_printf("done\n");
    return 0;
}

int init_module(void) { return pthread_create(&thread, NULL, wave, 0); }
void cleanup_module(void) { pthread_delete_np(thread); }
