/* Programs of 32-bit machines keep states and results in an `int`: nothing beside it is overwritten. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <rtl_sync.h>
#include <rtl_spinlock.h>

static struct { int before, place, after; } box;

static void *run(void *arg) { return (void *)-7L; }

static void look(const char *what)
{
    rtl_printf("%s: %s\n", what, box.before == 0x1111 && box.after == 0x2222 ? "whole" : "?");
}

static pthread_t started(void)
{
    pthread_t thread;
    return pthread_create(&thread, 0, run, 0) ? 0 : thread;
}

int init_module(void)
{
    pthread_spinlock_t lock;
    void *result = 0;
    box.before = 0x1111;
    box.place = 0x4444;
    box.after = 0x2222;
    rtl_no_interrupts(box.place);
    look("disabled");
    rtl_restore_interrupts(box.place);
    pthread_spin_init(&lock, 0);
    rtl_spin_lock_irqsave(&lock, box.place);
    look("locked");
    rtl_spin_unlock_irqrestore(&lock, box.place);
    rtl_printf("join: %d\n", pthread_join(started(), (void *)&box.place));
    look("joined");
    rtl_printf("result: %d\n", box.place);
    rtl_printf("join: %d\n", pthread_join(started(), &result));
    rtl_printf("result: %ld\n", (long)result);
    rtl_printf("join: %d\n", pthread_join(started(), 0));
    rtl_printf("done\n");
    return 0;
}

void cleanup_module(void) {}
