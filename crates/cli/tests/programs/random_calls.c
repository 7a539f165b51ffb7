/* Threads that call what there is about memory at random, each on memory of its own, and compare every word with what
 * they know must be there: `random_calls SEED THREADS CALLS`. Children of forks do the same with what they inherit. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define ALL (area->pages * PAGE)
#define WHERE(page) (area->at + (page) * PAGE)
enum { AREAS = 8, MOST = 96, WORDS = 4, STRIDE = 127, NOTES = 48, DEEP = 2 };
enum kind { PRIVATE, SHARED, FILE_SHARED, FILE_PRIVATE, KINDS };
enum state { GONE = 1, PERHAPS_ZERO = 2, UNREADABLE = 4, UNWRITABLE = 8 };

struct area {
    unsigned char *at;
    unsigned pages;
    enum kind kind;
    int file, is_wiped, is_left_out;
    unsigned tag[MOST], behind[MOST]; /* what a page has, and what is in the object behind it */
    unsigned char state[MOST];
};

struct owner {
    uint64_t random;
    unsigned number, tags, calls, notes, depth;
    struct area areas[AREAS];
    char note[NOTES][80];
};

static unsigned seed, calls;

static unsigned below(struct owner *me, unsigned count) {
    me->random ^= me->random << 13, me->random ^= me->random >> 7, me->random ^= me->random << 17;
    return (me->random >> 20) % count;
}

#define NOTE(...) snprintf(me->note[me->notes++ % NOTES], sizeof me->note[0], __VA_ARGS__)

static void fail(struct owner *me, struct area *area, unsigned page, const char *what, uint64_t found, uint64_t want) {
    dprintf(1, "seed %u thread %u depth %u call %u: %s, kind %d page %u of %u at %p: %lx, not %lx (errno %d)\n", seed,
            me->number, me->depth, me->calls, what, area ? (int)area->kind : -1, page, area ? area->pages : 0,
            area ? (void *)WHERE(page) : 0, found, want, errno);
    for (unsigned at = me->notes > NOTES ? me->notes - NOTES : 0; at < me->notes; at++) dprintf(1, "  %s\n", me->note[at % NOTES]);
    _exit(3);
}
#define MUST(what) do { if (!(what)) fail(me, area, 0, #what, 0, 0); } while (0)

static uint64_t word(unsigned tag, unsigned at) { return tag ? tag * 0x9E3779B97F4A7C15UL + at : 0; }

static void compare(struct owner *me, struct area *area, unsigned page, const uint64_t *words, const char *what) {
    for (unsigned at = 0; at < WORDS; at++) {
        uint64_t found = ((const volatile uint64_t *)words)[at * STRIDE], want = word(area->tag[page], at);
        int may_be_zero = area->state[page] & PERHAPS_ZERO && !found;
        if (found != want && !may_be_zero) fail(me, area, page, what, found, want);
    }
}

static void look(struct owner *me, struct area *area, unsigned page, const char *what) {
    if (!(area->state[page] & (GONE | UNREADABLE))) compare(me, area, page, (void *)WHERE(page), what);
}

static void look_at_all(struct owner *me, const char *what) {
    for (struct area *area = me->areas; area < me->areas + AREAS; area++)
        for (unsigned page = 0; area->at && page < area->pages; page++) look(me, area, page, what);
}

static void has(struct area *area, unsigned page, unsigned tag) {
    area->tag[page] = tag;
    area->state[page] &= ~PERHAPS_ZERO;
    if (area->kind == SHARED || area->kind == FILE_SHARED) area->behind[page] = tag;
}

static unsigned fill(struct owner *me, uint64_t *words) {
    unsigned tag = ++me->tags;
    for (unsigned at = 0; at < WORDS; at++) ((volatile uint64_t *)words)[at * STRIDE] = word(tag, at);
    return tag;
}

static void put(struct owner *me, struct area *area, unsigned page) {
    if (!(area->state[page] & (GONE | UNREADABLE | UNWRITABLE))) has(area, page, fill(me, (void *)WHERE(page)));
}

static int is_any(struct area *area, unsigned first, unsigned count, int states) {
    for (unsigned page = first; page < first + count; page++)
        if (area->state[page] & states) return 1;
    return 0;
}
static int is_plain(struct area *area) { return !is_any(area, 0, area->pages, GONE | UNREADABLE | UNWRITABLE); }

static void forget(struct area *area) {
    if (area->file > 0) close(area->file);
    memset(area, 0, sizeof *area);
}

static void unmap(struct owner *me, struct area *area) {
    for (unsigned page = 0; page < area->pages; page++) MUST(area->state[page] & GONE || !munmap(WHERE(page), PAGE));
    NOTE("unmapped %p", area->at);
    forget(area);
}

static void map(struct owner *me, struct area *area) {
    static const int flags[KINDS] = {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS, MAP_SHARED, MAP_PRIVATE};
    int more = (below(me, 8) ? 0 : MAP_POPULATE) | (below(me, 8) ? 0 : MAP_NORESERVE);
    area->pages = 1 + below(me, below(me, 4) ? 12 : MOST - 1);
    area->kind = below(me, 2) ? PRIVATE : below(me, KINDS);
    if (area->kind >= FILE_SHARED) {
        MUST((area->file = memfd_create("random", MFD_CLOEXEC)) > 0 && !ftruncate(area->file, MOST * PAGE));
        for (unsigned page = 0; area->kind == FILE_PRIVATE && page < area->pages; page += 2) {
            uint64_t words[PAGE / 8] = {0};
            area->tag[page] = area->behind[page] = fill(me, words);
            MUST(pwrite(area->file, words, PAGE, page * PAGE) == PAGE);
        }
    }
    int file = area->kind >= FILE_SHARED ? area->file : -1;
    MUST((area->at = mmap(0, ALL, PROT_READ | PROT_WRITE, flags[area->kind] | more, file, 0)) != MAP_FAILED);
    NOTE("mapped %p, %u pages of kind %d, flags %x", area->at, area->pages, area->kind, more);
}

static void advise(struct owner *me, struct area *area, unsigned first, unsigned count) {
    static const int kinds[] = {MADV_DONTNEED, MADV_FREE, MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED, MADV_POPULATE_READ,
                                MADV_POPULATE_WRITE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_RANDOM, MADV_DONTNEED};
    int kind = kinds[below(me, sizeof kinds / sizeof *kinds)], refused = madvise(WHERE(first), count * PAGE, kind);
    NOTE("advice %d for %p and %u pages: %d", kind, WHERE(first), count, refused);
    for (unsigned page = first; !refused && page < first + count; page++) {
        if (kind == MADV_FREE) area->state[page] |= PERHAPS_ZERO;
        if (kind != MADV_DONTNEED) continue;
        area->state[page] &= ~PERHAPS_ZERO;
        area->tag[page] = area->behind[page];
    }
}

static void protect(struct owner *me, struct area *area, unsigned first, unsigned count) {
    static const int kinds[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
    int kind = kinds[below(me, sizeof kinds / sizeof *kinds)];
    MUST(!mprotect(WHERE(first), count * PAGE, kind));
    NOTE("protection %d for %p and %u pages", kind, WHERE(first), count);
    for (unsigned page = first; page < first + count; page++) {
        area->state[page] &= ~(UNREADABLE | UNWRITABLE);
        area->state[page] |= kind == PROT_NONE ? UNREADABLE | UNWRITABLE : kind & PROT_WRITE ? 0 : UNWRITABLE;
    }
}

static void resize(struct owner *me, struct area *area) {
    unsigned pages = 1 + below(me, MOST - 1);
    /* Shared memory without a file stays as long as it was made. */
    if (!is_plain(area) || (area->kind == SHARED && pages > area->pages)) return;
    unsigned char *to = mremap(area->at, ALL, pages * PAGE, MREMAP_MAYMOVE);
    NOTE("%p, %u pages: %p, %u pages", area->at, area->pages, to, pages);
    /* It may be more than one mapping. */
    MUST(to != MAP_FAILED || errno == EFAULT);
    if (to == MAP_FAILED) return;
    area->at = to;
    for (unsigned page = area->pages < pages ? area->pages : pages; page < MOST; page++) {
        area->tag[page] = area->behind[page];
        area->state[page] = 0;
    }
    area->pages = pages;
}

static void move_onto(struct owner *me, struct area *area, struct area *other) {
    int fits = other != area && other->at && other->pages >= area->pages && !is_any(other, 0, other->pages, GONE);
    if (!fits || !is_plain(area)) return;
    NOTE("%p onto %p, %u pages", area->at, other->at, area->pages);
    void *to = mremap(area->at, ALL, ALL, MREMAP_MAYMOVE | MREMAP_FIXED, other->at);
    MUST(to == other->at || errno == EFAULT);
    if (to != other->at) return;
    MUST(other->pages == area->pages || !munmap(other->at + ALL, (other->pages - area->pages) * PAGE));
    area->at = other->at;
    forget(other);
}

static void move_without_unmapping(struct owner *me, struct area *area) {
    if (area->kind != PRIVATE || !is_plain(area)) return;
    unsigned char *from = area->at, *to = mremap(from, ALL, ALL, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    NOTE("%p moved, not unmapped: %p", from, to);
    if (to == MAP_FAILED) return;
    for (unsigned byte = 0; byte < ALL; byte += 512) MUST(!from[byte]);
    MUST(!munmap(from, ALL));
    area->at = to;
}

static void advise_forks(struct owner *me, struct area *area) {
    static const int kinds[] = {MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DONTFORK, MADV_DOFORK};
    int kind = kinds[below(me, 4)];
    if (is_any(area, 0, area->pages, GONE) || (kind == MADV_WIPEONFORK && area->kind != PRIVATE)) return;
    int refused = madvise(area->at, ALL, kind);
    NOTE("advice %d for %p: %d", kind, area->at, refused);
    if (refused) return;
    if (kind == MADV_WIPEONFORK || kind == MADV_KEEPONFORK) area->is_wiped = kind == MADV_WIPEONFORK;
    else area->is_left_out = kind == MADV_DONTFORK;
}

static void through_a_pipe(struct owner *me, struct area *area, unsigned first, unsigned count) {
    uint64_t words[PAGE / 8];
    int ends[2];
    MUST(!pipe(ends));
    for (unsigned page = first; page < first + count; page++) {
        if (area->state[page] & (GONE | UNREADABLE)) break;
        MUST(write(ends[1], WHERE(page), PAGE) == PAGE && read(ends[0], words, PAGE) == PAGE);
        compare(me, area, page, words, "through a pipe");
        if (area->state[page] & UNWRITABLE) continue;
        unsigned tag = fill(me, words);
        MUST(write(ends[1], words, PAGE) == PAGE && read(ends[0], WHERE(page), PAGE) == PAGE);
        has(area, page, tag);
    }
    close(ends[0]), close(ends[1]);
}

static void by_another_call(struct owner *me, struct area *area) {
    static __thread unsigned char copy[MOST * PAGE];
    if (!is_plain(area)) return;
    struct iovec to = {copy, ALL}, from = {area->at, ALL};
    MUST(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)ALL);
    for (unsigned page = 0; page < area->pages; page++) compare(me, area, page, (void *)(copy + page * PAGE), "process_vm_readv");
}

static void step(struct owner *me);

static void be_child(struct owner *me) {
    me->depth++;
    for (struct area *area = me->areas; area < me->areas + AREAS; area++) {
        /* What is shared the parent goes on to write. */
        if (area->is_left_out || area->kind == SHARED || area->kind == FILE_SHARED) forget(area);
        for (unsigned page = 0; area->is_wiped && page < area->pages; page++) has(area, page, 0);
    }
    look_at_all(me, "after a fork");
    for (unsigned left = me->depth > DEEP ? 3 : 30; left; left--) step(me);
    look_at_all(me, "at a child's end");
    _exit(0);
}

static void fork_once(struct owner *me) {
    struct area *area = 0;
    NOTE("fork");
    pid_t child = fork();
    MUST(child >= 0);
    if (!child) be_child(me);
    for (area = me->areas; below(me, 2) && area < me->areas + AREAS; area++)
        for (unsigned page = 0; area->kind == PRIVATE && area->at && page < area->pages; page++) put(me, area, page);
    int status;
    area = 0;
    while (waitpid(child, &status, 0) < 0) MUST(errno == EINTR);
    if (status) fail(me, area, 0, "a child's status", (unsigned)status, 0);
}

static void start_another(struct owner *me) {
    extern char **environ;
    char *words[] = {"true", 0};
    struct area *area = 0;
    int status;
    pid_t child;
    MUST(!posix_spawn(&child, "/bin/true", 0, 0, words, environ));
    while (waitpid(child, &status, 0) < 0) MUST(errno == EINTR);
    if (status) fail(me, area, 0, "the status of true", (unsigned)status, 0);
}

static void step(struct owner *me) {
    struct area *area = me->areas + below(me, AREAS);
    unsigned call = below(me, 22);
    me->calls++;
    if (call < 2) { area->at ? unmap(me, area) : map(me, area); return; }
    if (call == 2) { if (!below(me, 3)) fork_once(me); return; }
    if (call == 3) { if (!below(me, 6)) start_another(me); return; }
    if (!area->at) return;
    unsigned first = below(me, area->pages), count = 1 + below(me, area->pages - first);
    int is_whole = !is_any(area, first, count, GONE);
    if (call < 8) for (unsigned page = first; page < first + count; page++) put(me, area, page);
    else if (call < 10) for (unsigned page = first; page < first + count; page++) look(me, area, page, "read");
    else if (call == 10 && is_whole) {
        MUST(!munmap(WHERE(first), count * PAGE));
        memset(area->state + first, GONE, count);
        NOTE("unmapped %p, %u pages", WHERE(first), count);
    } else if (call < 13 && is_whole) advise(me, area, first, count);
    else if (call == 13 && is_whole) protect(me, area, first, count);
    else if (call < 16) resize(me, area);
    else if (call == 16) move_onto(me, area, me->areas + below(me, AREAS));
    else if (call == 17) move_without_unmapping(me, area);
    else if (call == 18) advise_forks(me, area);
    else if (call == 19) through_a_pipe(me, area, first, count < 8 ? count : 8);
    else if (call == 20) by_another_call(me, area);
    else if (call == 21 && is_whole && area->kind == PRIVATE && !area->is_wiped && !area->is_left_out) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        MUST(mmap(WHERE(first), count * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == WHERE(first));
        memset(area->state + first, 0, count);
        memset(area->tag + first, 0, count * sizeof *area->tag);
        NOTE("mapped over %p, %u pages", WHERE(first), count);
    }
}

static void *work(void *argument) {
    struct owner *me = argument;
    while (me->calls < calls) step(me);
    look_at_all(me, "at the end");
    return 0;
}

static unsigned char *watched;

/* Interrupts whatever is under way, and looks at memory that may be out. */
static void tick(int number) {
    int before = errno;
    if (watched[0] != 1 || watched[PAGE] != 2) dprintf(1, "signal %d finds other content\n", number), _exit(4);
    errno = before;
}

int main(int count, char **words) {
    if (count != 4) return 2;
    seed = (unsigned)atoi(words[1]), calls = (unsigned)atoi(words[3]);
    unsigned threads = (unsigned)atoi(words[2]);
    watched = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    watched[0] = 1, watched[PAGE] = 2;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 7000}, {0, 7000}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    struct owner *owners = calloc(threads, sizeof *owners);
    pthread_t thread[threads];
    for (unsigned at = 0; at < threads; at++) {
        owners[at] = (struct owner){.random = 88172645463325252UL + seed * 1000003UL + at * 7919, .number = at, .tags = at << 24};
        for (unsigned round = 0; round < 20; round++) below(&owners[at], 2);
        if (pthread_create(&thread[at], 0, work, &owners[at])) return 2;
    }
    for (unsigned at = 0; at < threads; at++) pthread_join(thread[at], 0);
    puts("as it must be");
    return 0;
}
