// One thread moves the break up and down and looks at what is there; another maps memory at a fixed place further up,
// where the agent may have made memory for the heap ahead. Neither does anything that the other could see.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define HEAP (64 * PAGE)

static unsigned char *_Atomic low;
static atomic_int done;

static void *map_above(void *unused)
{
    while (!low)
        ;
    unsigned char *place = low + 2 * HEAP;
    while (!atomic_load(&done)) {
        unsigned char *made = mmap(place, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (made != place || made[5 * PAGE] != 0)
            abort();
        made[5 * PAGE] = 7;
        munmap(made, 8 * PAGE);
    }
    return unused;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    pthread_t thread;
    // What the C library has for the thread is there before the heap is this program's.
    pthread_create(&thread, NULL, map_above, NULL);
    unsigned char *first = sbrk(0);
    first += (PAGE - (uintptr_t)first % PAGE) % PAGE;
    // The agent makes no more ahead than the heap has grown by.
    for (int times = 0; times < 8; times++)
        if (brk(first + HEAP) || brk(first))
            abort();
    low = first;
    for (int round = 0; round < rounds; round++) {
        for (int pages = 4; pages <= 64; pages += 4) {
            if (brk(first + pages * PAGE))
                return puts("the break did not move"), 1;
            memset(first, round, pages * PAGE);
        }
        if (first[HEAP - 1] != (unsigned char)round || brk(first))
            return puts("what was written is not there"), 1;
    }
    atomic_store(&done, 1);
    pthread_join(thread, NULL);
    return 0;
}
