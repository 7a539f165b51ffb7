/* Moves memory to where other memory has just been, with two threads, and checks every page. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
enum { PAGES = 64, ROUNDS = 60 };

static unsigned char *memory(void) {
    void *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(2);
    return at;
}

static unsigned char content(unsigned seed, size_t page) { return (unsigned char)((seed + page * 7) | 1); }

static void fill(unsigned char *at, unsigned seed) {
    for (size_t page = 0; page < PAGES; page++) at[page * PAGE + seed % PAGE] = content(seed, page);
}

static void verify(const unsigned char *at, unsigned seed, const char *when) {
    for (size_t page = 0; page < PAGES; page++) {
        unsigned char found = at[page * PAGE + seed % PAGE];
        if (found == content(seed, page)) continue;
        printf("round %u, page %zu %s: %d, not %d\n", seed, page, when, found, content(seed, page));
        exit(1);
    }
}

/* One onto another's place, which is exactly known, and then wherever the kernel finds room for more. */
static void *work(void *argument) {
    unsigned first = (unsigned)(uintptr_t)argument;
    unsigned char *spare = memory();
    fill(spare, first + ROUNDS);
    for (unsigned round = first; round < first + ROUNDS; round++) {
        unsigned char *from = memory(), *to = memory();
        fill(from, round);
        fill(to, round + 1);
        usleep(round % 5 * 300);
        unsigned char *moved = mremap(from, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        if (moved != to) exit(2);
        verify(to, round, "moved");
        usleep(500);
        verify(to, round, "later");
        unsigned char *grown = mremap(to, PAGES * PAGE, 3 * PAGES * PAGE, MREMAP_MAYMOVE);
        if (grown == MAP_FAILED) exit(2);
        verify(grown, round, "grown");
        munmap(grown, 3 * PAGES * PAGE);
        verify(spare, first + ROUNDS, "left alone");
    }
    return NULL;
}

int main(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, work, (void *)1000)) return 2;
    work((void *)100);
    pthread_join(other, NULL);
    puts("moved");
    return 0;
}
