/* Blocks of memory and threads' stacks that take each other's addresses: memory whose pages are being taken away is
   unmapped, and others come to lie there, managed or not. Every content is checked; "ok" if all was as written. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define PAGES 48UL
#define THREADS 3

static int rounds = 400;

static void wrong(const char *what, uint64_t found, uint64_t wanted)
{
    printf("%s: %llx instead of %llx\n", what, (unsigned long long)found, (unsigned long long)wanted);
    fflush(stdout);
    _exit(1);
}

static uint64_t pattern(uint64_t seed, uint64_t page) { return (seed << 20 ^ page) * 0x9e3779b97f4a7c15ULL | 1; }

static void fill(volatile uint64_t *base, uint64_t seed)
{
    for (uint64_t page = 0; page < PAGES; page++) base[page * PAGE / 8 + 7] = pattern(seed, page);
}

static void check(const char *what, volatile uint64_t *base, uint64_t seed)
{
    for (uint64_t page = 0; page < PAGES; page++) {
        uint64_t found = base[page * PAGE / 8 + 7];
        if (found != pattern(seed, page)) wrong(what, found, pattern(seed, page));
    }
}

/* Short-lived: its stack is new memory, that nobody manages, and is full of its own. */
static void *brief(void *argument)
{
    volatile uint64_t memory[PAGES * PAGE / 8];
    uint64_t seed = (uint64_t)argument;
    fill(memory, seed);
    for (int i = 0; i < 4; i++) {
        check("stack", memory, seed);
        if (i == 1) sched_yield();
    }
    return NULL;
}

static void *churn(void *argument)
{
    uint64_t number = (uint64_t)argument;
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = number << 32 | (uint64_t)round;
        size_t length = PAGES * PAGE;
        uint64_t *kept = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        fill(kept, seed);
        /* In the same place at once: managed memory for managed, then a stack's kind. */
        for (uint64_t again = 1; again < 4; again++) {
            int flags = MAP_PRIVATE | MAP_ANONYMOUS | (again & 1 ? MAP_STACK : 0);
            check("block", kept, seed);
            munmap(kept, length);
            uint64_t *next = mmap(kept, length, PROT_READ | PROT_WRITE, flags, -1, 0);
            if (next == MAP_FAILED) wrong("mmap", 0, 0);
            kept = next;
            for (uint64_t page = 0; page < PAGES; page++)
                if (kept[page * PAGE / 8 + 7]) wrong("new memory", kept[page * PAGE / 8 + 7], 0);
            seed += again << 24;
            fill(kept, seed);
        }
        check("block", kept, seed);
        munmap(kept, length);
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, (PAGES + 16) * PAGE + (size_t)(round % 8) * 16 * PAGE);
        pthread_t thread;
        if (pthread_create(&thread, &attributes, brief, (void *)(seed + 1))) wrong("thread", 0, 0);
        pthread_join(thread, NULL);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    if (count > 1) rounds = atoi(arguments[1]);
    for (uint64_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, churn, (void *)i)) wrong("thread", 0, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    puts("ok");
    return 0;
}
