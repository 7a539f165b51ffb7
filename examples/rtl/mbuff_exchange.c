/* One thread writes a table in shared memory and numbers each version, another reads those that are whole. */
#include <rtl.h>
#include <time.h>
#include <pthread.h>
#include <mbuff.h>
#include <string.h>

struct shared { volatile int version; int table[256]; };

pthread_t writer, reader;
volatile struct shared *memory;

void *write_table(void *arg)
{
    int i, v;
    pthread_make_periodic_np(pthread_self(), gethrtime(), 1000000);
    for (v = 2; v <= 20; v += 2) {
        pthread_wait_np();
        memory->version = v - 1;
        __sync_synchronize();
        for (i = 0; i < 256; i++) memory->table[i] = v;
        __sync_synchronize();
        memory->version = v;
    }
    return 0;
}

void *read_table(void *arg)
{
    int i, v = 0, torn = 0;
    pthread_make_periodic_np(pthread_self(), gethrtime() + 500000, 700000);
    while (v < 20) {
        pthread_wait_np();
        v = memory->version;
        if (v & 1) continue;
        for (i = 1; i < 256; i++) if (memory->table[i] != memory->table[0] && memory->version == v) torn++;
    }
    rtl_printf("last version %d, torn %d\n", v, torn);
    rtl_printf("done\n");
    return 0;
}

int init_module(void)
{
    memory = (volatile struct shared *)mbuff_alloc("exchange", sizeof(struct shared));
    if (memory == NULL) return -1;
    return pthread_create(&writer, NULL, write_table, 0) | pthread_create(&reader, NULL, read_table, 0);
}

void cleanup_module(void)
{
    pthread_delete_np(writer);
    pthread_delete_np(reader);
    mbuff_free("exchange", (void *)memory);
}
