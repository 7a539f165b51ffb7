/* Writes by write(2) to a file that is mapped meanwhile: what a write has put there is in the mapping when it returns,
 * and neither it nor a store to the other half of the same page is ever lost. mixed FILE WRITES HOW
 * HOW: threads, processes, append */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16, HALF = 2048, RECORD = 64 };

/* What the writer, the storer and the reader tell each other. */
struct told {
    atomic_ulong written[PAGES], stored[PAGES], appended;
    atomic_int over;
};

static struct told *told;
static int file;
static volatile char *map;
static unsigned long writes;

static unsigned next(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static volatile uint64_t *word(int page, int half)
{
    return (volatile uint64_t *)(map + page * PAGE + half * HALF);
}

/* The lower half of a page, all of it or a part, holds the number of the last write. */
static void *write_pages(void *unused)
{
    uint64_t bytes[HALF / 8];
    unsigned state = 1;
    for (unsigned long number = 1; number <= writes; number++) {
        int page = next(&state) % PAGES;
        size_t length = 8 + 8 * (next(&state) % (HALF / 8));
        for (size_t at = 0; at < length / 8; at++)
            bytes[at] = number;
        if (pwrite(file, bytes, length, page * PAGE) != (ssize_t)length)
            fail("pwrite");
        atomic_store(&told->written[page], number);
    }
    atomic_store(&told->over, 1);
    return unused;
}

static void *append_records(void *unused)
{
    uint64_t record[RECORD / 8];
    for (unsigned long number = 1; number <= writes; number++) {
        for (size_t at = 0; at < RECORD / 8; at++)
            record[at] = number;
        if (write(file, record, RECORD) != RECORD)
            fail("write");
        atomic_store(&told->appended, number);
    }
    atomic_store(&told->over, 1);
    return unused;
}

static void *store_words(void *unused)
{
    unsigned state = 7;
    for (uint64_t number = 1; !atomic_load(&told->over); number++) {
        int page = next(&state) % PAGES;
        *word(page, 1) = number;
        atomic_store(&told->stored[page], number);
    }
    return unused;
}

static void *read_words(void *unused)
{
    unsigned state = 3;
    while (!atomic_load(&told->over)) {
        int page = next(&state) % PAGES;
        uint64_t least = atomic_load(&told->written[page]), seen = *word(page, 0);
        if (seen < least) {
            printf("page %d: %lu was written, and %lu is mapped\n", page, (long)least, (long)seen);
            exit(1);
        }
    }
    return unused;
}

static void *read_records(void *unused)
{
    while (!atomic_load(&told->over)) {
        unsigned long number = atomic_load(&told->appended);
        volatile uint64_t *record = (volatile uint64_t *)(map + (number - 1) * RECORD);
        if (number > 0 && (record[0] != number || record[RECORD / 8 - 1] != number)) {
            printf("record %lu was appended, and %lu is mapped\n", number, (long)record[0]);
            exit(1);
        }
    }
    return unused;
}

static void run(void *(*role[])(void *), int count, int fork_them)
{
    pthread_t threads[3];
    pid_t children[3];
    for (int at = 0; at < count; at++)
        if (!fork_them) {
            if (pthread_create(&threads[at], NULL, role[at], NULL))
                fail("pthread_create");
        } else if ((children[at] = fork()) == 0) {
            role[at](NULL);
            fflush(stdout);
            _exit(0);
        }
    for (int at = 0; at < count; at++) {
        int status = 0;
        if (!fork_them)
            pthread_join(threads[at], NULL);
        else if (waitpid(children[at], &status, 0) < 0 || status != 0)
            exit(1);
    }
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    writes = strtoul(words[2], NULL, 10);
    int appends = strcmp(words[3], "append") == 0, fork_them = strcmp(words[3], "processes") == 0;
    size_t length = appends ? writes * RECORD : PAGES * PAGE;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    file = open(words[1], O_RDWR | O_CREAT | O_TRUNC | (appends ? O_APPEND : 0), 0644);
    if (told == MAP_FAILED || file < 0 || (!appends && ftruncate(file, length)))
        fail(words[1]);
    map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        fail("mmap");
    if (appends) {
        run((void *(*[])(void *)){append_records, read_records}, 2, 0);
        printf("%lu records\n", writes);
        return 0;
    }
    run((void *(*[])(void *)){write_pages, store_words, read_words}, 3, fork_them);
    int lost = 0;
    for (int page = 0; page < PAGES; page++)
        for (int half = 0; half < 2; half++) {
            uint64_t last = atomic_load(half ? &told->stored[page] : &told->written[page]), there;
            if (pread(file, &there, 8, page * PAGE + half * HALF) != 8)
                fail("pread");
            if (there != last || *word(page, half) != last) {
                printf("page %d, half %d: %lu was last, %lu is in the file\n", page, half, (long)last, (long)there);
                lost++;
            }
        }
    printf("%lu writes\n", writes);
    return lost > 0;
}
