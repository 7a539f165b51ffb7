/* Two threads write words of their own all over some memory, and check what they wrote before. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGES = 512, WORDS = 4096 / 8, THREADS = 2, VISITS = 300000 };

static uint64_t *memory;

static void *work(void *argument) {
    static uint64_t written[THREADS][PAGES];
    uintptr_t me = (uintptr_t)argument;
    uint64_t random = 88172645463325252u + me;
    for (unsigned visit = 0; visit < VISITS; visit++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t page = random % PAGES;
        volatile uint64_t *word = &memory[page * WORDS + me * 8];
        if (*word != written[me][page]) {
            printf("thread %zu, page %zu: %lu, not %lu\n", (size_t)me, page, *word, written[me][page]);
            exit(1);
        }
        for (unsigned more = random >> 40 & 31; more; more--) *word = ++written[me][page];
    }
    return NULL;
}

int main(void) {
    pthread_t other;
    memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pthread_create(&other, NULL, work, (void *)1)) return 2;
    work((void *)0);
    pthread_join(other, NULL);
    puts("written");
    return 0;
}
