/* Input and output straight from and to memory of which only a part may stay, while a second thread has the rest
 * brought in and evicted: O_DIRECT, io_uring with registered buffers, vmsplice. Whatever is not as it was written is
 * told, and ends the program. direct FILE */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 512 };
/* Pages: what is written from, what is read to, what the other thread goes through. */
enum { SOURCE = 1024, TARGET = 1024, REST = 2048 };
enum { PIECE = 32, BUFFERS = 8, FIXED = 32, ROUNDS = 3 };

static uint64_t *source, *target, *rest;
static atomic_int done;

static uint64_t expected(uint64_t what, uint64_t page, uint64_t word)
{
    return (what << 48 | page << 16 | word) * 0x9E3779B97F4A7C15u + 1;
}

static void fail(const char *what, long where)
{
    dprintf(1, "wrong: %s, %ld: %s\n", what, where, strerror(errno));
    _exit(1);
}

static void fill(uint64_t *memory, unsigned pages, uint64_t what)
{
    for (unsigned page = 0; page < pages; page++)
        for (unsigned word = 0; word < WORDS; word++)
            memory[page * WORDS + word] = expected(what, page, word);
}

static void check(const char *name, const uint64_t *memory, unsigned first, unsigned pages, uint64_t what)
{
    for (unsigned page = 0; page < pages; page++)
        for (unsigned word = 0; word < WORDS; word++)
            if (memory[page * WORDS + word] != expected(what, first + page, word))
                fail(name, (long)(first + page) * WORDS + word);
}

static void *churn(void *unused)
{
    for (uint64_t turn = 0; !done; turn++) {
        for (unsigned page = 0; page < REST && !done; page++) {
            if (rest[page * WORDS + page % WORDS] != expected(9, page, page % WORDS))
                fail("the rest", page);
            rest[page * WORDS + (page + 1) % WORDS] = expected(9, page, (page + 1) % WORDS);
        }
    }
    return unused;
}

static uint64_t *memory(unsigned pages)
{
    void *found = mmap(0, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        fail("memory", pages);
    return found;
}

static void direct(const char *path, uint64_t what)
{
    int file = open(path, O_RDWR | O_DIRECT);
    if (file < 0)
        fail("open", 0);
    fill(source, SOURCE, what);
    for (unsigned page = 0; page < SOURCE; page += PIECE)
        if (pwrite(file, source + page * WORDS, PIECE * PAGE, (off_t)page * PAGE) != PIECE * PAGE)
            fail("a direct write", page);
    for (unsigned page = 0; page < TARGET; page += PIECE)
        if (pread(file, target + page * WORDS, PIECE * PAGE, (off_t)page * PAGE) != PIECE * PAGE)
            fail("a direct read", page);
    check("what was written", source, 0, SOURCE, what);
    check("what was read", target, 0, TARGET, what);
    close(file);
}

static struct {
    int fd;
    unsigned *head, *tail, mask, *array, *completed_head, *completed_tail, completed_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
} ring;

static int make_ring(void)
{
    struct io_uring_params set = {0};
    ring.fd = syscall(SYS_io_uring_setup, BUFFERS, &set);
    if (ring.fd < 0)
        return 0;
    int flags = MAP_SHARED | MAP_POPULATE, may = PROT_READ | PROT_WRITE;
    char *queue = mmap(0, set.sq_off.array + set.sq_entries * 4, may, flags, ring.fd, IORING_OFF_SQ_RING);
    size_t length = set.cq_off.cqes + set.cq_entries * sizeof *ring.completions;
    char *completed = mmap(0, length, may, flags, ring.fd, IORING_OFF_CQ_RING);
    ring.entries = mmap(0, set.sq_entries * sizeof *ring.entries, may, flags, ring.fd, IORING_OFF_SQES);
    if (queue == MAP_FAILED || completed == MAP_FAILED || (void *)ring.entries == MAP_FAILED)
        fail("the ring's memory", 0);
    ring.tail = (unsigned *)(queue + set.sq_off.tail);
    ring.mask = *(unsigned *)(queue + set.sq_off.ring_mask);
    ring.array = (unsigned *)(queue + set.sq_off.array);
    ring.completed_head = (unsigned *)(completed + set.cq_off.head);
    ring.completed_tail = (unsigned *)(completed + set.cq_off.tail);
    ring.completed_mask = *(unsigned *)(completed + set.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(completed + set.cq_off.cqes);
    return 1;
}

/* All registered buffers to or from the file, at once. */
static void transfer(int file, int operation, uint64_t *from)
{
    for (unsigned at = 0; at < BUFFERS; at++) {
        unsigned tail = *ring.tail, row = tail & ring.mask;
        ring.entries[row] = (struct io_uring_sqe){
            .opcode = operation,
            .fd = file,
            .off = (uint64_t)at * FIXED * PAGE,
            .addr = (uint64_t)(from + at * FIXED * WORDS),
            .len = FIXED * PAGE,
            .buf_index = at,
        };
        ring.array[row] = row;
        __atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
    }
    for (unsigned left = BUFFERS, begun = BUFFERS; left > 0;) {
        long entered = syscall(SYS_io_uring_enter, ring.fd, begun, 1, IORING_ENTER_GETEVENTS, 0, 0);
        if (entered < 0 && errno != EINTR)
            fail("entering the ring", operation);
        begun -= entered > 0 ? entered : 0;
        unsigned head = *ring.completed_head;
        for (; head != __atomic_load_n(ring.completed_tail, __ATOMIC_ACQUIRE); head++, left--)
            if (ring.completions[head & ring.completed_mask].res != FIXED * PAGE)
                fail("a transfer of the ring", ring.completions[head & ring.completed_mask].res);
        __atomic_store_n(ring.completed_head, head, __ATOMIC_RELEASE);
    }
}

static void fixed(const char *path, uint64_t what)
{
    struct iovec buffers[BUFFERS];
    int file = open(path, O_RDWR | O_DIRECT);
    if (file < 0)
        fail("open", 1);
    for (unsigned at = 0; at < BUFFERS; at++)
        buffers[at] = (struct iovec){target + at * FIXED * WORDS, FIXED * PAGE};
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, buffers, BUFFERS))
        fail("registering buffers", BUFFERS);
    for (unsigned turn = 0; turn < 4; turn++) {
        fill(target, BUFFERS * FIXED, what + turn);
        transfer(file, IORING_OP_WRITE_FIXED, target);
        fill(target, BUFFERS * FIXED, 99);
        /* Everything else goes through the room that these pages leave. */
        fill(source, SOURCE, what + turn);
        transfer(file, IORING_OP_READ_FIXED, target);
        check("a registered buffer", target, 0, BUFFERS * FIXED, what + turn);
    }
    if (syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, 0, 0))
        fail("unregistering buffers", BUFFERS);
    check("the others", source, 0, SOURCE, what + 3);
    check("what was registered", target, 0, BUFFERS * FIXED, what + 3);
    close(file);
}

static void spliced(uint64_t what)
{
    static uint64_t got[PAGE / 8];
    int ends[2];
    if (pipe(ends))
        fail("a pipe", 0);
    fill(source, SOURCE, what);
    for (unsigned first = 0; first < SOURCE; first += 16) {
        struct iovec piece = {source + first * WORDS, 16 * PAGE};
        if (vmsplice(ends[1], &piece, 1, 0) != 16 * PAGE)
            fail("vmsplice", first);
        /* What lies in the pipe is of pages that are evicted meanwhile. */
        check("while it is in the pipe", target, 0, BUFFERS * FIXED, what);
        for (unsigned page = 0; page < 16; page++) {
            for (unsigned have = 0; have < PAGE;) {
                ssize_t read_ = read(ends[0], (char *)got + have, PAGE - have);
                if (read_ <= 0)
                    fail("the pipe", page);
                have += read_;
            }
            check("what was spliced", got, first + page, 1, what);
        }
    }
    check("what was spliced from", source, 0, SOURCE, what);
    close(ends[0]);
    close(ends[1]);
}

int main(int count, char **words)
{
    pthread_t thread;
    if (count < 2)
        return 2;
    source = memory(SOURCE);
    target = memory(TARGET);
    rest = memory(REST);
    fill(rest, REST, 9);
    int file = open(words[1], O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (file < 0) {
        dprintf(1, "not tested: no direct input and output here: %s\n", strerror(errno));
        return 0;
    }
    close(file);
    if (pthread_create(&thread, 0, churn, 0))
        return 3;
    for (uint64_t round = 0; round < ROUNDS; round++)
        direct(words[1], 10 + round);
    dprintf(1, "direct\n");
    if (make_ring()) {
        for (uint64_t round = 0; round < ROUNDS; round++)
            fixed(words[1], 20 + 4 * round);
        dprintf(1, "registered\n");
    } else
        dprintf(1, "not tested: io_uring: %s\n", strerror(errno));
    fill(target, BUFFERS * FIXED, 40);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        fill(target, BUFFERS * FIXED, 40 + round);
        spliced(40 + round);
    }
    dprintf(1, "spliced\n");
    done = 1;
    pthread_join(thread, 0);
    check("the rest", rest, 0, REST, 9);
    return 0;
}
