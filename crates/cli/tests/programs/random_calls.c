/* Threads that call what there is about memory at random, each on memory of its own, and compare every word with what
 * they know must be there: `random_calls SEED THREADS CALLS`. Children of forks do the same with what they inherit; with
 * a fourth word they are made past the C library, for which there must be one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define ALL (area->pages * PAGE)
#define WHERE(page) (area->at + (page) * PAGE)
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
enum { AREAS = 8, MOST = 96, WORDS = 4, STRIDE = 127, NOTES = 48, DEEP = 2, CHILDREN = 3, BREAK = 24, STACK = 16 };
enum kind { PRIVATE, SHARED, FILE_SHARED, FILE_PRIVATE, KINDS };
enum state { GONE = 1, PERHAPS_OLD = 2, UNREADABLE = 4, UNWRITABLE = 8, GUARDED = 16 };

struct area {
    unsigned char *at;
    unsigned pages;
    enum kind kind;
    int file, is_wiped, is_left_out, is_fixed;
    unsigned tag[MOST], behind[MOST]; /* what a page has, and what is in the object behind it */
    unsigned char state[MOST];
};

struct owner {
    uint64_t random;
    unsigned number, tags, calls, notes, depth;
    struct area areas[AREAS];
    pid_t children[CHILDREN];
    unsigned break_pages, break_tag[BREAK];
    unsigned char *break_end, *stack;
    char note[NOTES][80];
    unsigned char copy[MOST * PAGE];
};

static unsigned seed, calls;
static int past_the_library;

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
        int may_be_old = area->state[page] & PERHAPS_OLD && found == word(area->behind[page], at);
        if (found != want && !may_be_old) fail(me, area, page, what, found, want);
    }
}

static void look(struct owner *me, struct area *area, unsigned page, const char *what) {
    if (!(area->state[page] & (GONE | UNREADABLE | GUARDED))) compare(me, area, page, (void *)WHERE(page), what);
}

static void look_at_all(struct owner *me, const char *what) {
    for (struct area *area = me->areas; area < me->areas + AREAS; area++)
        for (unsigned page = 0; area->at && page < area->pages; page++) look(me, area, page, what);
}

static void has(struct area *area, unsigned page, unsigned tag) {
    area->tag[page] = tag;
    area->state[page] &= ~PERHAPS_OLD;
    if (area->kind == SHARED || area->kind == FILE_SHARED) area->behind[page] = tag;
}

static unsigned fill(struct owner *me, uint64_t *words) {
    unsigned tag = ++me->tags;
    for (unsigned at = 0; at < WORDS; at++) ((volatile uint64_t *)words)[at * STRIDE] = word(tag, at);
    return tag;
}

static void put(struct owner *me, struct area *area, unsigned page) {
    if (!(area->state[page] & (GONE | UNREADABLE | UNWRITABLE | GUARDED))) has(area, page, fill(me, (void *)WHERE(page)));
}

static int is_any(struct area *area, unsigned first, unsigned count, int states) {
    for (unsigned page = first; page < first + count; page++)
        if (area->state[page] & states) return 1;
    return 0;
}
static int is_plain(struct area *area) { return !is_any(area, 0, area->pages, GONE | UNREADABLE | UNWRITABLE | GUARDED); }

static void forget(struct area *area) {
    if (area->file > 0) close(area->file);
    memset(area, 0, sizeof *area);
}

#include "random_areas.h"
#include "random_paths.h"
#include "random_forks.h"

static void step(struct owner *me) {
    struct area *area = me->areas + below(me, AREAS);
    unsigned call = below(me, 36);
    me->calls++;
    if (call < 2) { area->at ? unmap(me, area) : map(me, area); return; }
    if (call == 2) { if (!below(me, 3)) fork_once(me); return; }
    if (call == 3) { if (!below(me, 6)) start_another(me); return; }
    if (call == 22) { if (!below(me, 3)) fork_and_go_on(me); return; }
    if (call == 23) { start_thread(me); return; }
    if (call == 24) { move_break(me); return; }
    if (call == 25) { vfork_once(me); return; }
    if (call == 26) { if (!area->at) by_own_userfault(me, area); return; }
    if (call == 27) { pthread_kill(pthread_self(), SIGUSR1); return; }
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
    else if (call == 21 && is_whole) map_over(me, area, first, count);
    else if (call == 28 && is_whole) guard(me, area, first, count);
    else if (call == 29 && is_whole) lock(me, area, first, count);
    else if (call == 30) name(me, area, first, count);
    else if (call == 31) by_file(me, area, first, count);
    else if (call == 32) move_a_part(me, area, first, count);
    else if (call == 33) by_splice(me, area, first, count < 8 ? count : 8);
    else if (call == 34) by_ring(me, area, first, count < 16 ? count : 16);
    else if (call == 35 && is_whole) advise_by_process(me, area, first, count);
}

static void *work(void *argument) {
    struct owner *me = argument;
    struct area *area = 0;
    stack_t stack = {.ss_size = STACK * PAGE};
    stack.ss_sp = mmap(0, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stack.ss_sp != MAP_FAILED && !sigaltstack(&stack, 0));
    while (me->calls < calls) step(me);
    look_at_all(me, "at the end");
    for (unsigned at = 0; at < CHILDREN; at++)
        if (me->children[at]) reap(me, me->children[at]);
    stack.ss_flags = SS_DISABLE;
    MUST(!sigaltstack(&stack, 0) && !munmap(stack.ss_sp, STACK * PAGE));
    return 0;
}

static unsigned char *watched;

/* Interrupts whatever is under way, and looks at memory that may be out. */
static void tick(int number) {
    int before = errno;
    volatile unsigned char much[6 * PAGE];
    for (unsigned byte = 0; byte < sizeof much; byte += 512) much[byte] = byte / 512;
    if (watched[0] != 1 || watched[PAGE] != 2) dprintf(1, "signal %d finds other content\n", number), _exit(4);
    for (unsigned byte = 0; byte < sizeof much; byte += 512)
        if (much[byte] != (unsigned char)(byte / 512)) dprintf(1, "a signal's stack has other content\n"), _exit(5);
    errno = before;
}

int main(int count, char **words) {
    if (count != 4 && count != 5) return 2;
    past_the_library = count == 5;
    seed = (unsigned)atoi(words[1]), calls = (unsigned)atoi(words[3]);
    unsigned threads = (unsigned)atoi(words[2]);
    watched = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    watched[0] = 1, watched[PAGE] = 2;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART | SA_ONSTACK};
    struct itimerval often = {{0, 7000}, {0, 7000}};
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGUSR1, &action, 0);
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
