/* Calls that say something about memory, each on memory that has been taken out meanwhile where there is less of it
 * than this uses. Prints a line for each kind: its name, and `ok`, `none` (this kernel does not have it) or what is
 * wrong. With `--list` only the names. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define PAGES 64UL
#define SIZE (PAGES * PAGE)
#define PRESSURE (6UL << 20)
#define NONE 1000
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103

static char *pressure;
static int pipes[2];

static char *map(size_t size, int flags) {
    char *made = mmap(0, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    return made == MAP_FAILED ? 0 : made;
}

/* Uses so much other memory that what was there before has to go. */
static void press(void) {
    for (size_t at = 0; at < PRESSURE; at += PAGE) pressure[at]++;
}

static void fill(char *region, unsigned seed) {
    for (size_t at = 0; at < SIZE; at += 8) *(unsigned long *)(region + at) = (at + 1) * 2654435761UL + seed;
}

/* Pages that do not hold what `fill` wrote. */
static int differ(const char *region, unsigned seed) {
    int wrong = 0;
    for (size_t page = 0; page < SIZE; page += PAGE)
        for (size_t at = page; at < page + PAGE; at += 8)
            if (*(const unsigned long *)(region + at) != (at + 1) * 2654435761UL + seed) {
                wrong++;
                break;
            }
    return wrong;
}

/* Pages that do not hold zeros. */
static int dirty(const char *region) {
    int wrong = 0;
    for (size_t at = 0; at < SIZE; at++)
        if (region[at]) wrong++, at |= PAGE - 1;
    return wrong;
}

static char *filled(void) {
    char *region = map(SIZE, MAP_PRIVATE);
    fill(region, 7);
    press();
    return region;
}

/* What a child of a fork finds wrong. */
static int in_child(int (*look)(const char *), const char *region) {
    int status;
    pid_t child = fork();
    if (!child) _exit(look(region));
    while (waitpid(child, &status, 0) != child) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int sees_content(const char *region) { return differ(region, 7); }
static int sees_zeros(const char *region) { return dirty(region); }
static int sees_nothing(const char *region) {
    unsigned char there[PAGES];
    return !(mincore((void *)region, SIZE, there) && errno == ENOMEM);
}
static int makes_its_own(const char *region) {
    char *made = mmap((void *)region, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made != region || dirty(made)) return 1;
    fill(made, 9);
    return differ(made, 9);
}

/* Advice that may be refused, and changes no content. */
static int changes_nothing(int advice) {
    char *region = filled();
    madvise(region, SIZE, advice);
    press();
    int wrong = differ(region, 7);
    fill(region, 8);
    press();
    wrong += differ(region, 8);
    munmap(region, SIZE);
    return wrong;
}

static int drops(int advice) {
    char *region = filled();
    if (madvise(region, SIZE, advice)) return errno == EINVAL ? NONE : -1;
    int wrong = dirty(region);
    fill(region, 8);
    press();
    return wrong + differ(region, 8);
}

static int normal(void) { return changes_nothing(MADV_NORMAL); }
static int random_(void) { return changes_nothing(MADV_RANDOM) + changes_nothing(MADV_SEQUENTIAL); }
static int willneed(void) { return changes_nothing(MADV_WILLNEED); }
static int dontdump(void) { return changes_nothing(MADV_DONTDUMP) + changes_nothing(MADV_DODUMP); }
static int cold(void) { return changes_nothing(MADV_COLD); }
static int pageout(void) { return changes_nothing(MADV_PAGEOUT); }
static int populate(void) { return changes_nothing(22) + changes_nothing(23); }
static int collapse(void) { return changes_nothing(25); }
static int mergeable(void) { return changes_nothing(MADV_MERGEABLE) + changes_nothing(MADV_UNMERGEABLE); }
static int hugepage(void) { return changes_nothing(MADV_HUGEPAGE) + changes_nothing(MADV_NOHUGEPAGE); }
static int dontneed(void) { return drops(MADV_DONTNEED); }
static int dontneed_locked(void) { return drops(24); }

static int posix(void) {
    char *region = filled();
    int wrong = 0;
    for (int advice = POSIX_MADV_NORMAL; advice <= POSIX_MADV_DONTNEED; advice++)
        wrong += posix_madvise(region, SIZE, advice) != 0;
    press();
    return wrong + differ(region, 7);
}

static int free_(void) {
    char *region = filled();
    if (madvise(region, SIZE, MADV_FREE)) return -1;
    int wrong = 0;
    for (size_t at = 0; at < SIZE; at += PAGE) {
        unsigned long word = *(unsigned long *)(region + at);
        wrong += word != 0 && word != (at + 1) * 2654435761UL + 7;
    }
    fill(region, 8);
    press();
    return wrong + differ(region, 8);
}

static int remove_(void) {
    char *region = filled();
    if (!madvise(region, SIZE, MADV_REMOVE) || errno != EINVAL) return -1;
    return differ(region, 7);
}

/* Whether the kernel refuses to read there. */
static int is_guarded(const char *place) {
    char sink[8];
    if (write(pipes[1], place, 8) != 8) return errno == EFAULT;
    return read(pipes[0], sink, 8) != 8;
}

static int guards(int (*advise)(char *, size_t, int)) {
    char *region = filled();
    if (advise(region, SIZE, GUARD_INSTALL)) return errno == EINVAL || errno == ENOSYS ? NONE : -1;
    int wrong = !is_guarded(region) + !is_guarded(region + SIZE - 8);
    press();
    wrong += !is_guarded(region + SIZE / 2);
    if (advise(region, SIZE, GUARD_REMOVE)) return -1;
    wrong += dirty(region);
    fill(region, 8);
    press();
    return wrong + differ(region, 8);
}

static int plainly(char *region, size_t size, int advice) { return madvise(region, size, advice); }
static int by_number(char *region, size_t size, int advice) { return (int)syscall(SYS_madvise, region, size, advice); }
static int by_process(char *region, size_t size, int advice) {
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    struct iovec parts[] = {{region, size / 2}, {region + size / 2, size / 2}};
    ssize_t done = process_madvise(self, parts, 2, advice, 0);
    int why = errno;
    close(self);
    errno = why;
    return done != (ssize_t)size;
}
static int guard(void) { return guards(plainly); }
static int guard_by_number(void) { return guards(by_number); }
static int process_madvise_(void) { return guards(by_process); }

/* With a hole in the range, and with memory in it that cannot have guards. */
static int guard_partly(void) {
    char *region = filled();
    munmap(region + SIZE / 2, PAGE);
    if (!madvise(region, SIZE, GUARD_INSTALL)) return -1;
    if (errno == EINVAL) return NONE;
    madvise(region, SIZE, GUARD_REMOVE);
    int wrong = 0;
    for (size_t at = 0; at < SIZE; at += PAGE) wrong += at != SIZE / 2 && region[at] != 0;
    char *other = filled();
    if (mmap(other + SIZE / 2, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return -1;
    mlock(other + SIZE / 2, PAGE);
    madvise(other, SIZE, GUARD_INSTALL);
    madvise(other, SIZE, GUARD_REMOVE);
    for (size_t at = 0; at < SIZE / 2; at += PAGE) wrong += other[at] != 0;
    for (size_t at = SIZE / 2 + PAGE; at < SIZE; at += PAGE) {
        unsigned long word = *(unsigned long *)(other + at);
        wrong += word != 0 && word != (at + 1) * 2654435761UL + 7;
    }
    return wrong;
}

/* What grows lies behind memory of another kind, with the same advice. The kernel may refuse, as two mappings. */
static int wiped_behind_another(void) {
    char *region = map(3 * SIZE, MAP_PRIVATE);
    munmap(region + 2 * SIZE, SIZE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_FIXED;
    if (mmap(region, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) != region) return -1;
    if (madvise(region, 2 * SIZE, MADV_WIPEONFORK)) return -1;
    region = mremap(region, 2 * SIZE, 3 * SIZE, MREMAP_MAYMOVE);
    if (region == MAP_FAILED) return errno != EFAULT;
    fill(region + 2 * SIZE, 8);
    press();
    return in_child(sees_zeros, region + 2 * SIZE) + differ(region + 2 * SIZE, 8);
}

static int wipeonfork(void) {
    char *region = filled();
    if (madvise(region, SIZE, MADV_WIPEONFORK)) return errno == EINVAL ? NONE : -1;
    int wrong = in_child(sees_zeros, region) + differ(region, 7);
    press();
    region = mremap(region, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
    wrong += in_child(sees_zeros, region) + differ(region, 7);
    fill(region + SIZE, 8);
    press();
    wrong += in_child(sees_zeros, region + SIZE) + differ(region + SIZE, 8);
    char *moved = mremap(region, 2 * SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    if (moved == MAP_FAILED) return errno == EINVAL ? wrong : -1;
    fill(region, 9);
    press();
    wrong += in_child(sees_zeros, region) + in_child(sees_zeros, moved + SIZE) + differ(moved + SIZE, 8);
    return wrong + wiped_behind_another();
}

static int keeponfork(void) {
    char *region = filled();
    if (madvise(region, SIZE, MADV_WIPEONFORK) || madvise(region, SIZE, MADV_KEEPONFORK)) return NONE;
    return in_child(sees_content, region) + differ(region, 7);
}

static int dontfork(void) {
    char *region = filled();
    if (madvise(region, SIZE, MADV_DONTFORK)) return -1;
    int wrong = in_child(sees_nothing, region) + in_child(makes_its_own, region);
    press();
    return wrong + differ(region, 7);
}

static int dofork(void) {
    char *region = filled();
    if (madvise(region, SIZE, MADV_DONTFORK) || madvise(region, SIZE, MADV_DOFORK)) return -1;
    return in_child(sees_content, region) + differ(region, 7);
}

/* What is taken back is the one piece of advice, not the other. */
static int each_advice(void) {
    char *region = filled();
    if (madvise(region, SIZE, MADV_WIPEONFORK) || madvise(region, SIZE, MADV_DONTFORK)) return NONE;
    press();
    if (madvise(region, SIZE, MADV_DOFORK)) return -1;
    int wrong = in_child(sees_zeros, region);
    if (madvise(region, SIZE, MADV_DONTFORK) || madvise(region, SIZE, MADV_KEEPONFORK)) return -1;
    wrong += in_child(sees_nothing, region);
    if (madvise(region, SIZE, MADV_DOFORK)) return -1;
    return wrong + in_child(sees_content, region) + differ(region, 7);
}

/* What is mapped where such memory was is inherited as any other, whosever that was. */
static int replaces(char *region) {
    if (madvise(region, SIZE, MADV_DONTFORK)) return -1;
    munmap(region, SIZE);
    char *made = mmap(region, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made != region) return -1;
    fill(made, 7);
    press();
    return in_child(sees_content, made) + differ(made, 7);
}
static int unmapped_advice(void) { return replaces(filled()); }
static int unmapped_shared(void) { return replaces(map(SIZE, MAP_SHARED)); }

static int fork_copies(void) {
    char *region = filled();
    return in_child(sees_content, region) + differ(region, 7);
}

static int prctl_name(void) {
    char *region = filled();
    prctl(0x53564d41, 0, region + PAGE, SIZE / 2, "named");
    press();
    return differ(region, 7);
}

static int prctl_answers(void) {
    /* What is longer than the C library's answer is cut. */
    unsigned long before = syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0), slack = (8UL << 30) + 77;
    if (prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0)) return -1;
    int wrong = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) != (int)slack;
    return wrong + prctl(PR_SET_TIMERSLACK, before, 0, 0, 0);
}

static int prctl_thp(void) {
    char *region = filled();
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    press();
    int wrong = differ(region, 7);
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    return wrong;
}

static int code_of_libc(struct dl_phdr_info *info, size_t size, void *code) {
    (void)size;
    for (int at = 0; strstr(info->dlpi_name, "libc.so") && at < info->dlpi_phnum; at++)
        if (info->dlpi_phdr[at].p_type == PT_LOAD && info->dlpi_phdr[at].p_flags & PF_X) {
            ((unsigned long *)code)[0] = info->dlpi_addr + info->dlpi_phdr[at].p_vaddr;
            ((unsigned long *)code)[1] = info->dlpi_phdr[at].p_memsz;
        }
    return 0;
}

/* All system calls but those of the C library are to be handed to a handler, of which there is none. Whether that is
 * taken or refused, the C library's go on. */
static int prctl_dispatch(void) {
    static volatile char selector;
    enum { DISPATCH = 59 };
    unsigned long code[2] = {0};
    int wrong = 0;
    char *region = filled();
    dl_iterate_phdr(code_of_libc, code);
    for (int by_number = 0; by_number < 2; by_number++) {
        long set = by_number ? syscall(SYS_prctl, DISPATCH, 1, code[0], code[1], &selector)
                             : prctl(DISPATCH, 1, code[0], code[1], &selector);
        if (set && errno != EINVAL) return 1;
        selector = 1;
        char *other = map(SIZE, MAP_PRIVATE);
        fill(other, 3);
        wrong += differ(other, 3) + !!madvise(other, SIZE, MADV_DONTNEED) + dirty(other) + !!munmap(other, SIZE);
        selector = 0;
        if (!set) prctl(DISPATCH, 0, 0, 0, 0);
    }
    press();
    return wrong + differ(region, 7);
}

static int prctl_mm(void) {
    char *region = filled();
    unsigned long end = (unsigned long)sbrk(0);
    prctl(PR_SET_MM, PR_SET_MM_BRK, end, 0, 0);
    char *heap = malloc(SIZE);
    fill(heap, 7);
    press();
    return differ(region, 7) + differ(heap, 7);
}

static int prctl_merge(void) {
    char *region = filled();
    if (prctl(67, 1, 0, 0, 0)) return NONE;
    press();
    int wrong = differ(region, 7);
    prctl(67, 0, 0, 0, 0);
    return wrong;
}

static int mseal_(void) {
    char *region = filled();
    if (syscall(462, region, SIZE, 0)) return errno == ENOSYS ? NONE : -1;
    int wrong = !munmap(region, SIZE);
    press();
    wrong += differ(region, 7);
    fill(region, 8);
    press();
    return wrong + differ(region, 8);
}

static int pkey(void) {
    char *region = filled();
    int key = pkey_alloc(0, 0);
    if (key < 0) return NONE;
    if (pkey_mprotect(region, SIZE, PROT_READ | PROT_WRITE, key)) return -1;
    press();
    int wrong = differ(region, 7);
    fill(region, 8);
    press();
    return wrong + differ(region, 8);
}

static int protect(void) {
    char *region = filled();
    mprotect(region, SIZE, PROT_NONE);
    press();
    mprotect(region, SIZE, PROT_READ);
    int wrong = differ(region, 7);
    press();
    mprotect(region, SIZE, PROT_READ | PROT_WRITE);
    fill(region, 8);
    press();
    return wrong + differ(region, 8);
}

#include "memory_moves.h"

static int remap_file(void) {
    char *region = map(SIZE, MAP_SHARED);
    fill(region, 7);
    press();
    if (remap_file_pages(region, PAGE, 0, 1, 0)) return NONE;
    int wrong = memcmp(region, region + PAGE, PAGE) != 0;
    return wrong;
}

static int noreplace(void) {
    char *region = filled();
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(region, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED || errno != EEXIST) return -1;
    int wrong = differ(region, 7);
    munmap(region, SIZE);
    char *made = mmap(region, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
    return wrong + (made != region) + dirty(made);
}

static int fixed(void) {
    char *region = filled();
    char *made = mmap(region, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return (made != region) + dirty(made);
}

static int droppable(void) {
    char *region = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | 8, -1, 0);
    if (region == MAP_FAILED) return NONE;
    fill(region, 7);
    press();
    int wrong = 0;
    for (size_t at = 0; at < SIZE; at += PAGE) {
        unsigned long word = *(unsigned long *)(region + at);
        wrong += word != 0 && word != (at + 1) * 2654435761UL + 7;
    }
    return wrong + in_child(sees_zeros, region);
}

static int secret(void) {
    int fd = (int)syscall(447, 0);
    if (fd < 0 || ftruncate(fd, SIZE)) return NONE;
    char *region = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED) return NONE;
    fill(region, 7);
    press();
    return differ(region, 7);
}

/* What a child makes right behind what it has inherited, as it does when its heap grows: all of it stays. */
static int beside_inherited(void) {
    enum { REGIONS = 6, ALL = 96 };
    char *regions[REGIONS];
    int status;
    for (int at = 0; at < REGIONS; at++) {
        regions[at] = map(ALL * PAGE, MAP_PRIVATE);
        munmap(regions[at] + (5 + 9 * at) * PAGE, (ALL - 5 - 9 * at) * PAGE);
        for (int page = 0; page < 5 + 9 * at; page++) regions[at][page * PAGE] = 1;
    }
    pid_t child = fork();
    if (!child) {
        int wrong = 0, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        for (int at = 0; at < REGIONS; at++) {
            int first = 5 + 9 * at;
            mmap(regions[at] + first * PAGE, (ALL - first) * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
            for (int page = 0; page < ALL; page++) *(int *)(regions[at] + page * PAGE) = 100 * at + page + 1;
        }
        press();
        for (int at = 0; at < REGIONS; at++)
            for (int page = 0; page < ALL; page++) wrong += *(int *)(regions[at] + page * PAGE) != 100 * at + page + 1;
        _exit(wrong > 200 ? 200 : wrong);
    }
    while (waitpid(child, &status, 0) != child) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Shared memory in the place of private memory, and then private memory again. */
static int attached(int by_number) {
    int segment = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    if (segment < 0) return NONE;
    char *region = filled(), *shared = shmat(segment, 0, 0);
    fill(shared, 9);
    void *made = by_number ? (void *)syscall(SYS_shmat, segment, region, SHM_REMAP)
                           : shmat(segment, region, SHM_REMAP);
    int refused = shmat(segment, region, 0) != (void *)-1 || errno != EINVAL;
    int nowhere = shmat(segment, region + 8, SHM_REMAP) != (void *)-1 || errno != EINVAL;
    nowhere |= shmat(segment, (void *)8, SHM_REMAP | SHM_RND) != (void *)-1 || errno != EINVAL;
    shmctl(segment, IPC_RMID, 0);
    int wrong = (made != region) + differ(region, 9) + refused + nowhere;
    region[5]++;
    wrong += shared[5] != region[5];
    if (shmdt(region) || shmdt(shared)) return -1;
    made = mmap(region, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return wrong + (made != region) + dirty(region);
}
static int attach(void) { return attached(0); }
static int attach_by_number(void) { return attached(1); }

#include "memory_numbers.h"

static const struct {
    const char *name;
    int (*run)(void);
} kinds[] = {
    {"normal", normal}, {"random", random_}, {"willneed", willneed}, {"dontdump", dontdump}, {"cold", cold},
    {"pageout", pageout}, {"populate", populate}, {"collapse", collapse}, {"mergeable", mergeable},
    {"hugepage", hugepage}, {"dontneed", dontneed}, {"dontneed-locked", dontneed_locked}, {"posix", posix},
    {"free", free_}, {"remove", remove_}, {"guard", guard}, {"guard-partly", guard_partly},
    {"guard-by-number", guard_by_number}, {"process-madvise", process_madvise_}, {"fork", fork_copies},
    {"wipeonfork", wipeonfork}, {"keeponfork", keeponfork}, {"dontfork", dontfork}, {"dofork", dofork},
    {"each-advice", each_advice}, {"unmapped-advice", unmapped_advice}, {"unmapped-shared", unmapped_shared},
    {"prctl-name", prctl_name}, {"prctl-answers", prctl_answers}, {"prctl-thp", prctl_thp},
    {"prctl-dispatch", prctl_dispatch}, {"prctl-mm", prctl_mm}, {"prctl-merge", prctl_merge}, {"mseal", mseal_},
    {"pkey", pkey}, {"protect", protect},
    {"remap", remap}, {"remap-locked", remap_locked}, {"remap-pieces", remap_pieces},
    {"remap-several", remap_several}, {"remap-file-pages", remap_file}, {"fixed", fixed}, {"fixed-noreplace", noreplace},
    {"droppable", droppable}, {"memfd-secret", secret}, {"fork-beside", beside_inherited}, {"attach", attach},
    {"attach-by-number", attach_by_number}, {"map-by-number", map_by_number}, {"remap-by-number", remap_by_number},
    {"break-by-number", break_by_number}, {"lock-by-number", lock_by_number}, {"fork-by-number", fork_by_number},
    {"endless-lengths", endless_lengths},
};

int main(int count, char **words) {
    int list = count > 1 && !strcmp(words[1], "--list"), failed = 0;
    if (pipe(pipes)) return 2;
    pressure = list ? 0 : map(PRESSURE, MAP_PRIVATE);
    setvbuf(stdout, 0, _IONBF, 0);
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        if (list) {
            puts(kinds[at].name);
        } else if (count < 2 || !strcmp(words[1], kinds[at].name)) {
            int wrong = kinds[at].run();
            failed += wrong && wrong != NONE;
            if (!wrong || wrong == NONE) printf("%s %s\n", kinds[at].name, wrong ? "none" : "ok");
            else printf("%s WRONG %d\n", kinds[at].name, wrong);
        }
    }
    return failed != 0;
}
