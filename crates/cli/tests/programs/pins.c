/* Calls that pin more memory at once than may stay: direct input and output, process_vm_readv, buffers that an io_uring
 * has registered. Whatever is not as it was written is told, and ends the program. Between the parts it says where it
 * is, and waits for a line. pins FILE PAGES */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512, PIECE = 64 };

static unsigned pages;
static uint64_t *source, *target, *rest;

static void fail(const char *what, long where)
{
    dprintf(1, "wrong: %s, %ld: %s\n", what, where, strerror(errno));
    _exit(1);
}

static uint64_t expected(uint64_t what, uint64_t page, uint64_t word)
{
    return (what << 48 | page << 16 | word) * 0x9E3779B97F4A7C15u + 1;
}

static void fill(uint64_t *memory, uint64_t what)
{
    for (unsigned page = 0; page < pages; page++)
        for (unsigned word = 0; word < WORDS; word += 64)
            memory[page * WORDS + word] = expected(what, page, word);
}

static void check(const char *name, const uint64_t *memory, uint64_t what)
{
    for (unsigned page = 0; page < pages; page++)
        for (unsigned word = 0; word < WORDS; word += 64)
            if (memory[page * WORDS + word] != expected(what, page, word))
                fail(name, (long)page * WORDS + word);
}

static void pause_at(const char *where)
{
    char line;
    dprintf(1, "%s\n", where);
    while (read(0, &line, 1) == 1 && line != '\n')
        ;
}

static uint64_t *memory(void)
{
    void *found = mmap(0, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        fail("memory", pages);
    return found;
}

/* One call for everything. */
static void direct(int file)
{
    ssize_t length = (ssize_t)pages * PAGE;
    fill(source, 1);
    ssize_t done = pwrite(file, source, length, 0);
    if (done != length)
        fail("a direct write", done);
    done = pread(file, target, length, 0);
    if (done != length)
        fail("a direct read", done);
    check("what was read", target, 1);
    check("what was written", source, 1);
}

static void copied(void)
{
    ssize_t length = (ssize_t)pages * PAGE;
    fill(source, 2);
    madvise(target, length, MADV_DONTNEED);
    struct iovec to = {target, length}, from = {source, length};
    ssize_t done = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (done != length)
        fail("process_vm_readv", done);
    check("what was copied", target, 2);
    check("what was copied from", source, 2);
}

static void registered(void)
{
    struct io_uring_params set = {0};
    int ring = syscall(SYS_io_uring_setup, 8, &set);
    if (ring < 0) {
        pause_at("no ring");
        return;
    }
    unsigned count = pages / PIECE;
    struct iovec *buffers = calloc(count, sizeof *buffers);
    for (unsigned at = 0; at < count; at++)
        buffers[at] = (struct iovec){target + at * PIECE * WORDS, PIECE * PAGE};
    fill(target, 3);
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, count)) {
        if (errno != ENOMEM)
            fail("registering buffers", count);
        pause_at("refused");
        return;
    }
    check("what is registered", target, 3);
    fill(source, 4);
    fill(target, 5);
    pause_at("registered");
    check("what is registered", target, 5);
    check("the others", source, 4);
    close(ring);
    free(buffers);
}

int main(int words, char **word)
{
    if (words < 3)
        return 2;
    pages = atoi(word[2]);
    source = memory();
    target = memory();
    rest = memory();
    int file = open(word[1], O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (file >= 0)
        direct(file);
    pause_at(file >= 0 ? "direct" : "no direct");
    copied();
    pause_at("copied");
    registered();
    for (int round = 6; round < 10; round++) {
        fill(rest, round);
        check("the rest", rest, round);
        check("the others", source, 4);
        check("what was registered", target, 5);
    }
    pause_at("let go");
    check("what was registered", target, 5);
    return 0;
}
