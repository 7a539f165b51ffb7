/* Programs that lock memory: `locks KIND MIB`, with so many MiB to lock. Prints what it found; ends with 0 where all is
 * as it should be, with 3 where a lock was refused for want of memory, and with 1 else. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define MIB ((size_t)1 << 20)

static volatile int going = 1;

static char *memory(size_t size) {
    char *made = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return made == MAP_FAILED ? 0 : made;
}

static void fill(char *at, size_t size) {
    for (size_t page = 0; page < size; page += PAGE) at[page] = (char)(page / PAGE % 251 + 1);
}

static int wrong(const char *at, size_t size) {
    int count = 0;
    for (size_t page = 0; page < size; page += PAGE) count += at[page] != (char)(page / PAGE % 251 + 1);
    return count;
}

/* Faults of this thread, so far. */
static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

/* Uses more memory than there is. */
static void use(size_t size) {
    char *other = memory(size);
    if (!other) return;
    memset(other, 1, size);
    munmap(other, size);
}

static void *hog(void *unused) {
    while (going) use(24 * MIB);
    return unused;
}

static int refused(const char *what) {
    printf("%s: %s\n", what, errno == ENOMEM ? "no memory" : errno == EAGAIN ? "try again" : strerror(errno));
    fflush(stdout);
    return errno == ENOMEM || errno == EAGAIN ? 3 : 1;
}

/* A periodic loop over what is locked: reads, writes and a little work, without a fault. */
static int loop(char *kept, size_t size) {
    struct timespec rest = { 0, 2000000 };
    long before = faults();
    int bad = 0;
    for (int job = 0; job < 100; job++) {
        bad += wrong(kept, size);
        fill(kept, size);
        nanosleep(&rest, 0);
    }
    long after = faults();
    printf("%ld faults, %d pages wrong\n", after - before, bad);
    return after != before || bad;
}

static int periodic(int flags, size_t size) {
    pthread_t thread;
    char *kept = memory(size);
    fill(kept, size);
    if (mlockall(flags)) return refused("mlockall");
    if (!(flags & MCL_FUTURE) && pthread_create(&thread, 0, hog, 0)) return 1;
    loop(kept, size);
    int bad = loop(kept, size);
    going = 0;
    if (!(flags & MCL_FUTURE)) pthread_join(thread, 0);
    return bad;
}

/* Memory made after mlockall(MCL_FUTURE) is there and locked, or is refused. */
static int future(int flags, size_t size) {
    int bad = 0;
    if (mlockall(MCL_CURRENT | MCL_FUTURE | flags)) return refused("mlockall");
    char *kept = memory(size), *heap = malloc(MIB / 2);
    if (!kept || !heap) return refused("mmap");
    long before = faults();
    if (!flags) for (size_t page = 0; page < size; page += PAGE) bad += kept[page] != 0;
    if (!flags && faults() != before) bad++, printf("%ld faults on new memory\n", faults() - before);
    fill(kept, size);
    if (flags) loop(kept, size);
    bad += loop(kept, size);
    /* What grows is there too, or stays as it is. */
    heap = realloc(heap, 2 * MIB);
    if (!heap) return refused("realloc");
    before = faults();
    fill(heap, 2 * MIB);
    if (!flags && faults() != before) bad++, printf("%ld faults on grown memory\n", faults() - before);
    bad += realloc(heap, 64 * MIB) != 0;
    bad += wrong(heap, 2 * MIB);
    /* More than can stay is refused, as often as it is asked for. */
    for (int round = 0; round < 3; round++) {
        char *more = memory(64 * MIB);
        int why = errno;
        printf("64 MiB more: %s\n", more ? "made" : why == EAGAIN ? "try again" : strerror(why));
        bad += more != 0;
    }
    munmap(kept, size);
    kept = memory(size);
    if (!kept) return refused("mmap again");
    fill(kept, size);
    bad += loop(kept, size);
    munlockall();
    use(64 * MIB);
    return bad + wrong(kept, size) != 0;
}

/* What is unlocked, unmapped, or belonged to a child or to another program can be locked by others. */
static int back(size_t size) {
    for (int round = 0; round < 8; round++) {
        char *kept = memory(size);
        fill(kept, size);
        if (round % 2 ? mlock(kept, size) : mlock2(kept, size, MLOCK_ONFAULT)) return refused("mlock");
        use(24 * MIB);
        long before = faults();
        if (wrong(kept, size) || faults() != before) return printf("faults on locked memory\n"), 1;
        if (round % 3 == 0 && munlock(kept, size)) return 1;
        if (round % 3 == 1) kept = mremap(kept, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, memory(size));
        use(24 * MIB);
        if (wrong(kept, size)) return printf("wrong\n"), 1;
        munmap(kept, size);
    }
    for (int round = 0; round < 3; round++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            char *own = memory(size);
            fill(own, size);
            _exit(mlock(own, size) ? refused("mlock in a child") : wrong(own, size) != 0);
        }
        waitpid(child, &status, 0);
        if (status) return printf("the child ended with %x\n", status), 1;
    }
    puts("all given back");
    return 0;
}

/* A part of a mapping, and twice. */
static int parts(size_t size) {
    char *kept = memory(2 * size);
    fill(kept, 2 * size);
    if (mlock(kept + size / 2, size / 2) || mlock(kept + size / 4, size / 2)) return refused("mlock");
    if (munlock(kept + size / 4, size / 4)) return 1;
    use(24 * MIB);
    long before = faults();
    int bad = 0;
    for (size_t page = size / 2; page < size; page += PAGE) bad += kept[page] != (char)(page / PAGE % 251 + 1);
    bad += faults() != before;
    bad += wrong(kept, 2 * size);
    printf("%d pages wrong\n", bad);
    return bad != 0;
}

/* By a system call that nobody but the kernel sees. */
static int unseen(size_t size) {
    long answer;
    char *kept = memory(size);
    fill(kept, size);
    __asm__ volatile("syscall" : "=a"(answer) : "a"(SYS_mlock), "D"(kept), "S"(size) : "rcx", "r11", "memory");
    printf("mlock: %s\n", answer ? "refused" : "done");
    if (answer) return 3;
    use(24 * MIB);
    printf("%d pages wrong\n", wrong(kept, size));
    return wrong(kept, size) != 0;
}

int main(int count, char **words) {
    const char *kind = count > 1 ? words[1] : "";
    size_t size = (size_t)(count > 2 ? atoi(words[2]) : 2) * MIB;
    if (!strcmp(kind, "current")) return periodic(MCL_CURRENT, size);
    if (!strcmp(kind, "on-fault")) return periodic(MCL_CURRENT | MCL_ONFAULT, size);
    if (!strcmp(kind, "both")) return periodic(MCL_CURRENT | MCL_FUTURE, size);
    if (!strcmp(kind, "future")) return future(0, size);
    if (!strcmp(kind, "future-on-fault")) return future(MCL_ONFAULT, size);
    if (!strcmp(kind, "back")) return back(size);
    if (!strcmp(kind, "parts")) return parts(size);
    if (!strcmp(kind, "unseen")) return unseen(size);
    return 2;
}
