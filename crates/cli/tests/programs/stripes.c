/* Several workers change one file at once in all the ways there are, each only bytes of its own, which lie in pages of
 * the others: whatever is not as its worker left it is told, and ends the program. stripes FILE STEPS HOW SEED
 * HOW: threads, processes */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, PAGE = 4096, PAGES = 48, BLOCK = 256, LENGTH = PAGES * PAGE, LONGER = 20000 };

static const char *path;
static unsigned long steps;
static unsigned seed;

/* A worker, and what its bytes of the file are to be. */
struct worker {
    int number, file, pipe[2];
    unsigned state;
    unsigned long step;
    unsigned char *map, model[LENGTH];
};

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static unsigned next(struct worker *worker)
{
    worker->state = worker->state * 1664525u + 1013904223u;
    return worker->state >> 8;
}

static void compare(struct worker *worker, const char *how, const unsigned char *got, int at, int length)
{
    if (memcmp(got, worker->model + at, length) == 0)
        return;
    int differs = 0;
    while (got[differs] == worker->model[at + differs])
        differs++;
    printf("worker %d, step %lu, %s: byte %d is %02x and not %02x\n", worker->number, worker->step, how, at + differs,
           got[differs], worker->model[at + differs]);
    exit(1);
}

static void open_anew(struct worker *worker, int at, int length)
{
    unsigned char bytes[BLOCK];
    int file = open(path, O_RDONLY), page = at / PAGE * PAGE;
    unsigned char *map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, page);
    if (file < 0 || map == MAP_FAILED)
        fail("another mapping");
    compare(worker, "another mapping", map + at - page, at, length);
    munmap(map, PAGE);
    if (pread(file, bytes, length, at) != length)
        fail("pread");
    compare(worker, "another descriptor", bytes, at, length);
    close(file);
}

static void splice_out(struct worker *worker, int at, int length)
{
    unsigned char bytes[BLOCK];
    loff_t from = at;
    if (splice(worker->file, &from, worker->pipe[1], NULL, length, 0) != length ||
        read(worker->pipe[0], bytes, length) != length)
        fail("splice");
    compare(worker, "splice", bytes, at, length);
}

/* Changes bytes: by a write, by a store, or to zeros. */
static void change(struct worker *worker, int way, int at, int length)
{
    unsigned char bytes[BLOCK] = {0};
    for (int index = 0; way < 2 && index < length; index++)
        bytes[index] = next(worker);
    if (way == 0 && pwrite(worker->file, bytes, length, at) != length)
        fail("pwrite");
    if (way == 1)
        memcpy(worker->map + at, bytes, length);
    if (way == 2 && fallocate(worker->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length))
        fail("fallocate");
    memcpy(worker->model + at, bytes, length);
}

static void one_step(struct worker *worker)
{
    unsigned char bytes[BLOCK];
    int offset = next(worker) % BLOCK, length = 1 + next(worker) % (BLOCK - offset);
    int at = (next(worker) % (LENGTH / BLOCK / WORKERS) * WORKERS + worker->number) * BLOCK + offset;
    unsigned char *page = worker->map + at / PAGE * PAGE;
    int what = next(worker) % 64;
    if (what < 28) {
        change(worker, what < 12 ? 0 : what < 24 ? 1 : 2, at, length);
    } else if (what < 38) {
        if (pread(worker->file, bytes, length, at) != length)
            fail("pread");
        compare(worker, "pread", bytes, at, length);
    } else if (what < 50) {
        if (what < 42 && madvise(page, PAGE, MADV_DONTNEED))
            fail("madvise");
        memcpy(bytes, worker->map + at, length);
        compare(worker, "the mapping", bytes, at, length);
    } else if (what < 56) {
        splice_out(worker, at, length);
    } else if (what < 60) {
        open_anew(worker, at, length);
    } else if (what == 60 && msync(page, PAGE, MS_SYNC)) {
        fail("msync");
    } else if (what == 61 && fdatasync(worker->file)) {
        fail("fdatasync");
    } else if (what == 62 && worker->number == 0 && ftruncate(worker->file, LENGTH + next(worker) % LONGER)) {
        fail("ftruncate");
    }
}

static void *work(void *number)
{
    struct worker *worker = calloc(1, sizeof *worker);
    worker->number = (int)(long)number;
    worker->state = seed * 97 + worker->number * 7919 + 1;
    worker->file = open(path, O_RDWR);
    worker->map = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, worker->file, 0);
    if (worker->file < 0 || worker->map == MAP_FAILED || pipe(worker->pipe))
        fail(path);
    for (; worker->step < steps; worker->step++)
        one_step(worker);
    for (int at = worker->number * BLOCK; at < LENGTH; at += WORKERS * BLOCK) {
        unsigned char bytes[BLOCK];
        if (pread(worker->file, bytes, BLOCK, at) != BLOCK)
            fail("pread");
        compare(worker, "pread at the end", bytes, at, BLOCK);
        compare(worker, "the mapping at the end", worker->map + at, at, BLOCK);
    }
    return NULL;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    path = words[1];
    steps = strtoul(words[2], NULL, 10);
    seed = strtoul(words[4], NULL, 10);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644), failed = 0, status;
    if (file < 0 || ftruncate(file, LENGTH))
        fail(path);
    if (strcmp(words[3], "processes") == 0) {
        for (long number = 0; number < WORKERS; number++)
            if (fork() == 0) {
                work((void *)number);
                exit(0);
            }
        while (wait(&status) > 0)
            failed |= status != 0;
    } else {
        pthread_t threads[WORKERS];
        for (long number = 0; number < WORKERS; number++)
            if (pthread_create(&threads[number], NULL, work, (void *)number))
                fail("pthread_create");
        for (int number = 0; number < WORKERS; number++)
            pthread_join(threads[number], NULL);
    }
    printf("%lu steps\n", steps);
    return failed;
}
