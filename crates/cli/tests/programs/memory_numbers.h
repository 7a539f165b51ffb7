/* Part of memory_calls.c: calls by their numbers, through the C library's `syscall`. */
#include <inttypes.h>
#include <linux/sched.h>
#include <signal.h>

/* Whether a userfaultfd watches a place. */
static int is_watched(const char *place) {
    char line[512];
    int within = 0, watched = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (!maps) return -1;
    while (fgets(line, sizeof line, maps)) {
        uintptr_t start, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2)
            within = start <= (uintptr_t)place && (uintptr_t)place < end;
        if (within && !strncmp(line, "VmFlags:", 8)) watched = strstr(line, " um") != 0;
    }
    fclose(maps);
    return watched;
}

static int map_by_number(void) {
    char *named = filled();
    char *region = (char *)syscall(SYS_mmap, 0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(region, 8);
    int wrong = is_watched(region) != is_watched(named);
    press();
    wrong += differ(region, 8) + differ(named, 7);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    wrong += (char *)syscall(SYS_mmap, region, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) != region;
    wrong += dirty(region);
    if (syscall(SYS_mprotect, region, SIZE, PROT_READ)) return -1;
    wrong += dirty(region);
    if (syscall(SYS_munmap, region, SIZE)) return -1;
    wrong += sees_nothing(region);
    wrong += syscall(SYS_mmap, 0, 0L, PROT_READ, flags, -1, 0) != -1 || errno != EINVAL;
    /* No such protection: the kernel's answer. */
    wrong += syscall(SYS_mprotect, named, SIZE, 1L << 40) != -1 || errno != EINVAL;
    return wrong + differ(named, 7);
}

static int remap_by_number(void) {
    char *region = filled();
    region = (char *)syscall(SYS_mremap, region, SIZE, 2 * SIZE, MREMAP_MAYMOVE, 0L);
    if (region == MAP_FAILED) return -1;
    press();
    int wrong = differ(region, 7) + dirty(region + SIZE);
    fill(region + SIZE, 8);
    char *place = map(2 * SIZE, MAP_PRIVATE);
    press();
    char *moved = (char *)syscall(SYS_mremap, region, 2 * SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    press();
    return wrong + (moved != place) + differ(moved, 7) + differ(moved + SIZE, 8);
}

static int break_by_number(void) {
    /* Which has the C library use its own heap before: it does not know of what follows. */
    char *named = filled();
    int watched = is_watched(named);
    char *start = (char *)syscall(SYS_brk, 0L);
    char *region = (char *)(((uintptr_t)start + PAGE - 1) & ~(PAGE - 1)), *end = region + SIZE;
    if ((char *)syscall(SYS_brk, end) != end) return -1;
    int wrong = dirty(region);
    fill(region, 8);
    wrong += is_watched(region) != watched;
    press();
    wrong += differ(region, 8) + ((char *)syscall(SYS_brk, 0L) != end);
    return wrong + ((char *)syscall(SYS_brk, start) != start) + ((char *)syscall(SYS_brk, 0L) != start);
}

static int lock_by_number(void) {
    char *region = filled();
    int refused = mlock(pressure, PRESSURE), why = refused ? errno : 0;
    munlock(pressure, PRESSURE);
    int too = (int)syscall(SYS_mlock, pressure, PRESSURE), reason = too ? errno : 0;
    syscall(SYS_munlock, pressure, PRESSURE);
    int wrong = refused != too || why != reason;
    if (syscall(SYS_mlock2, region, SIZE, 0L)) return errno == ENOSYS ? NONE : -1;
    press();
    wrong += differ(region, 7) + (syscall(SYS_munlock, region, SIZE) != 0);
    refused = mlockall(MCL_CURRENT), why = refused ? errno : 0;
    munlockall();
    too = (int)syscall(SYS_mlockall, MCL_CURRENT), reason = too ? errno : 0;
    syscall(SYS_munlockall);
    press();
    return wrong + (refused != too || why != reason) + differ(region, 7);
}

/* A child by number `way`, which begins another program by number. */
static pid_t forked_by_number(int way) {
    struct clone_args asked = {.exit_signal = SIGCHLD};
    switch (way) {
    case 0: return (pid_t)syscall(SYS_fork);
    case 1: return (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
    default: return (pid_t)syscall(SYS_clone3, &asked, sizeof asked);
    }
}

static int fork_by_number(void) {
    char *const program[] = {"sh", "-c", "exit 7", 0};
    char *region = filled();
    int wrong = 0;
    for (int way = 0; way < 6; way++) {
        int status = 0;
        press();
        pid_t child = forked_by_number(way % 3);
        if (!child) {
            if (differ(region, 7)) _exit(1);
            if (way < 3) syscall(SYS_execve, "/bin/sh", program, environ);
            else syscall(SYS_execveat, AT_FDCWD, "/bin/sh", program, environ, 0L);
            _exit(2);
        }
        while (waitpid(child, &status, 0) != child) {}
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
    }
    wrong += syscall(SYS_clone3, 0L, 0L) != -1 || errno != EINVAL;
    wrong += syscall(SYS_clone3, 8L, 88L) != -1 || errno != EFAULT;
    return wrong + differ(region, 7);
}

/* The kernel's answer to a call past the C library. */
static long kernel(long number, const void *a, size_t b, long c, long d) {
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return number;
}

static int answers(long done, long answer) {
    return answer < 0 ? done == -1 && errno == -answer : done == answer;
}

/* Lengths past the last page of all memory, which the kernel takes for nothing or refuses. */
static int endless_lengths(void) {
    static const size_t lengths[] = {-4097, -4096, -4095, -1};
    char *region = filled();
    char *starts[] = {region, (char *)-4096, (char *)-1};
    int wrong = 0;
    for (int each = 0; each < 4; each++)
        for (int at = 0; at < 3; at++) {
            size_t length = lengths[each];
            char *start = starts[at];
            long moved = (long)mremap(start, length, SIZE, MREMAP_MAYMOVE);
            wrong += !answers(moved, kernel(SYS_mremap, start, length, SIZE, MREMAP_MAYMOVE));
            moved = (long)mremap(start, SIZE, length, MREMAP_MAYMOVE);
            wrong += !answers(moved, kernel(SYS_mremap, start, SIZE, (long)length, MREMAP_MAYMOVE));
            wrong += !answers(munmap(start, length), kernel(SYS_munmap, start, length, 0, 0));
            wrong += !answers(mprotect(start, length, 3), kernel(SYS_mprotect, start, length, 3, 0));
            wrong += !answers(mlock(start, length), kernel(SYS_mlock, start, length, 0, 0));
            wrong += !answers(munlock(start, length), kernel(SYS_munlock, start, length, 0, 0));
            for (int advice = 0; advice < 26; advice++)
                wrong += !answers(madvise(start, length, advice), kernel(SYS_madvise, start, length, advice, 0));
            wrong += mmap(0, length, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
        }
    press();
    return wrong + differ(region, 7);
}
