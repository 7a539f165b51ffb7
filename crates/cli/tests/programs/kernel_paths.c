/* What the kernel, or another process, does with a program's memory where no fault is served, on memory that has been
 * taken out meanwhile where there is less of it than this uses. Prints a line for each kind: its name, and `ok`, `none`
 * (this machine does not have it) or what is wrong. With a word it waits for a debugger, with two it ends with a core
 * file, with four it is the debugger. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define PRESSURE (12UL << 20)
#define SIZE (64 * PAGE)
#define NONE 1000

static char *pressure;

static char *map(size_t size, int flags) {
    char *made = mmap(0, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    return made == MAP_FAILED ? 0 : made;
}

static void press(void) {
    for (size_t at = 0; at < PRESSURE; at += PAGE) pressure[at]++;
}

static struct timespec soon(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    return until;
}

static pthread_mutex_t *robust(char *place, int shared) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    if (shared) pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init((pthread_mutex_t *)place, &kind);
    return (pthread_mutex_t *)place;
}

static int is_dead(pthread_mutex_t *mutex) {
    struct timespec until = soon();
    return pthread_mutex_timedlock(mutex, &until) == EOWNERDEAD;
}

/* Robust mutexes on several pages, of a thread that ends. */
static pthread_mutex_t *several[8];
static void *holds(void *none) {
    for (int at = 0; at < 8; at++) pthread_mutex_lock(several[at]);
    press();
    return none;
}
static int thread_end(void) {
    pthread_t thread;
    char *region = malloc(9 * PAGE);
    for (int at = 0; at < 8; at++) several[at] = robust(region + at * (PAGE + 64), 0);
    press();
    pthread_create(&thread, 0, holds, 0);
    pthread_join(thread, 0);
    int wrong = 0;
    for (int at = 0; at < 8; at++) wrong += !is_dead(several[at]);
    return wrong;
}

/* A process that is killed: behind its own mutexes in the kernel's list is one that others wait for. */
static int process_end(void) {
    pthread_mutex_t *shared = robust(map(PAGE, MAP_SHARED), 1);
    pid_t child = fork();
    if (!child) {
        pressure = map(PRESSURE, MAP_PRIVATE);
        pthread_mutex_lock(shared);
        pthread_mutex_lock(robust(map(SIZE, MAP_PRIVATE), 0));
        press();
        kill(getpid(), SIGKILL);
    }
    while (waitpid(child, 0, 0) != child) {}
    return !is_dead(shared);
}

/* A thread on a stack of the program's own: the kernel clears a word there as the thread ends. */
static void *presses(void *none) {
    press();
    return none;
}
static int own_stack(void) {
    pthread_attr_t how;
    pthread_t thread;
    size_t size = 1 << 20;
    char *stack = map(size, MAP_PRIVATE);
    memset(stack, 's', size);
    press();
    pthread_attr_init(&how);
    pthread_attr_setstack(&how, stack, size);
    if (pthread_create(&thread, &how, presses, 0)) return -1;
    struct timespec until = soon();
    return pthread_timedjoin_np(thread, 0, &until) != 0 || stack[0] != 's';
}

/* A userfaultfd of the program's own. */
static int watcher, watched;
static void *fills(void *none) {
    static char page[PAGE] __attribute__((aligned(4096)));
    struct uffd_msg message;
    memset(page, 'f', PAGE);
    while (read(watcher, &message, sizeof message) == sizeof message) {
        struct uffdio_copy copy = {message.arg.pagefault.address & ~(PAGE - 1), (unsigned long)page, PAGE, 0, 0};
        __atomic_add_fetch(&watched, 1, __ATOMIC_SEQ_CST);
        ioctl(watcher, UFFDIO_COPY, &copy);
    }
    return none;
}
static int watch(char *region, size_t size) {
    struct uffdio_register range = {{(unsigned long)region, size}, UFFDIO_REGISTER_MODE_MISSING, 0};
    return ioctl(watcher, UFFDIO_REGISTER, &range);
}
static int own_faults(void) {
    pthread_t thread;
    struct uffdio_api api = {UFFD_API, 0, 0};
    watcher = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (watcher < 0 || ioctl(watcher, UFFDIO_API, &api)) return NONE;
    pthread_create(&thread, 0, fills, 0);
    int wrong = 0;
    /* Untouched, small and large. */
    char *fresh[] = {map(SIZE, MAP_PRIVATE), map(8 * PAGE, MAP_PRIVATE), map(8 * PAGE, MAP_PRIVATE)};
    fresh[1][0] = 1;
    size_t sizes[] = {SIZE, 0, 8 * PAGE};
    for (int at = 0; at < 3; at++) {
        if (sizes[at] && watch(fresh[at], sizes[at])) return -1;
        for (size_t page = 0; page < sizes[at]; page += PAGE) wrong += fresh[at][page] != 'f';
    }
    if (watched != 64 + 8) wrong++;
    /* Beside memory that is managed, whose neighbours come along with it. */
    char *both = map(16 * PAGE, MAP_PRIVATE);
    unsigned char there[8] = {0};
    if (watch(both + 8 * PAGE, 8 * PAGE)) return -3;
    both[0] = 1;
    for (int times = 0; times < 200 && !(there[7] & 1); times++) {
        usleep(1000);
        mincore(both, 8 * PAGE, there);
    }
    for (size_t page = 8 * PAGE; page < 16 * PAGE; page += PAGE) wrong += both[page] != 'f';
    /* With content, which is out. */
    char *used = map(SIZE, MAP_PRIVATE);
    memset(used, 'u', SIZE);
    press();
    if (watch(used, SIZE)) return -2;
    for (size_t page = 0; page < SIZE; page += PAGE) wrong += used[page] != 'u';
    madvise(used, SIZE, MADV_DONTNEED);
    press();
    for (size_t page = 0; page < SIZE; page += PAGE) wrong += used[page] != 'f';
    return wrong;
}

/* Another process that reads this one's memory, in each of the ways that debuggers and profilers use. */
static int readers(pid_t whom, char *region) {
    char found[8] = "", path[64];
    struct iovec to = {found, 8}, from = {region + 2 * PAGE, 8};
    int wrong = 0;
    if (process_vm_readv(whom, &to, 1, &from, 1, 0) != 8 || memcmp(found, "xxxxxxxx", 8)) wrong |= 1;
    snprintf(path, sizeof path, "/proc/%d/mem", whom);
    int fd = open(path, O_RDONLY);
    memset(found, 0, 8);
    if (pread(fd, found, 8, (off_t)(region + 4 * PAGE)) != 8 || memcmp(found, "xxxxxxxx", 8)) wrong |= 2;
    if (ptrace(PTRACE_ATTACH, whom, 0, 0)) return wrong | 8;
    waitpid(whom, 0, __WALL);
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, whom, region + 8 * PAGE, 0);
    if (errno || memcmp(&word, "xxxxxxxx", 8)) wrong |= 4;
    ptrace(PTRACE_DETACH, whom, 0, 0);
    return wrong;
}
static int looked_at(void) {
    char go;
    int way[2], status = 0;
    char *region = map(SIZE, MAP_PRIVATE);
    pid_t whom = getpid();
    if (pipe(way)) return -1;
    pid_t reader = fork();
    if (!reader) _exit(read(way[0], &go, 1) == 1 ? readers(whom, region) : 16);
    memset(region, 'x', SIZE);
    press();
    if (write(way[1], "g", 1) != 1) return -1;
    while (waitpid(reader, &status, 0) != reader) {}
    char *later = map(SIZE, MAP_PRIVATE);
    memset(later, 'y', SIZE);
    press();
    for (size_t at = 0; at < SIZE; at++) if (region[at] != 'x' || later[at] != 'y') return 99;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

/* The program's own memory, read and written by its file: each way to open it, in a process that has not yet. */
static int open_own(int way) {
    char path[64];
    int folder = open("/proc/self", O_RDONLY | O_DIRECTORY);
    FILE *stream = way == 3 ? fopen("/proc/self/mem", "r+") : 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/mem", getpid(), getpid());
    return way == 0   ? open("/proc/self/mem", O_RDWR)
           : way == 1 ? openat(folder, "mem", O_RDWR)
           : way == 2 ? open(path, O_RDWR)
           : stream   ? fileno(stream)
                      : -1;
}
static int reads_itself(int way) {
    char page[PAGE], *region = map(SIZE, MAP_PRIVATE), *untouched = map(SIZE, MAP_PRIVATE);
    int wrong = 0;
    pressure = map(PRESSURE, MAP_PRIVATE);
    memset(region, 'x', SIZE);
    press();
    int file = open_own(way);
    for (char *at = region; at < region + SIZE; at += PAGE) {
        wrong += pread(file, page, PAGE, (off_t)(unsigned long)at) != PAGE || page[0] != 'x' || page[PAGE - 1] != 'x';
        wrong += pwrite(file, "y", 1, (off_t)(unsigned long)at) != 1;
    }
    press();
    for (char *at = region; at < region + SIZE; at += PAGE) wrong += at[0] != 'y' || at[1] != 'x';
    for (char *at = untouched; at < untouched + SIZE; at += PAGE) {
        wrong += pread(file, page, PAGE, (off_t)(unsigned long)at) != PAGE || page[7];
        wrong += pwrite(file, "y", 1, (off_t)(unsigned long)at) != 1 || *at != 'y';
    }
    /* What it makes later: never touched, read, and read only. */
    for (int later = 0; later < 4; later++) {
        int protection = later & 1 ? PROT_READ : PROT_READ | PROT_WRITE;
        char *fresh = mmap(0, SIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *block = malloc(100000);
        for (char *at = fresh; later & 2 && at < fresh + SIZE; at += PAGE) wrong += *(volatile char *)at;
        for (char *at = fresh; at < fresh + SIZE; at += 2 * PAGE) {
            wrong += pread(file, page, PAGE, (off_t)(unsigned long)at) != PAGE || page[0];
            wrong += pwrite(file, "z", 1, (off_t)(unsigned long)at) != 1 || *at != 'z';
        }
        wrong += !block || pwrite(file, "z", 1, (off_t)(unsigned long)block + 50000) != 1 || block[50000] != 'z';
        free(block);
    }
    return wrong > 200 ? 200 : wrong;
}
static int own_memory(void) {
    int wrong = 0;
    for (int way = 0; way < 4; way++) {
        int status = 0;
        pid_t child = fork();
        if (!child) _exit(reads_itself(way));
        while (waitpid(child, &status, 0) != child) {}
        wrong += status != 0;
    }
    return wrong;
}

/* A process that shares the address space, and outlives its maker: it finds what was there, or ends by SIGBUS. It
 * looks again and again, since a server may still serve it until it has seen that the maker is gone. */
enum { LOOKS = 100 };
static int *told;
static int looks(const char *region) {
    int wrong = 0;
    for (int look = 0; look < LOOKS; look++, press())
        for (size_t at = 0; at < SIZE; at++) wrong += region[at] != 'x';
    return wrong != 0;
}
static int outlives(void *argument) {
    while (getppid() == told[0]) usleep(1000);
    /* Or a child of it does, past the C library, and then it. */
    int status = 0;
    pid_t child = told[3] ? (pid_t)syscall(SYS_fork) : 0;
    if (told[3] && !child) _exit(looks(argument));
    while (child && waitpid(child, &status, 0) != child) {}
    if (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS)) told[1] = 2;
    int wrong = looks(argument);
    if (!told[1]) told[1] = wrong ? 2 : 1;
    _exit(0);
}
static int outlived(int forks) {
    told = (int *)map(PAGE, MAP_SHARED);
    told[3] = forks;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t maker = fork();
    if (!maker) {
        pressure = map(PRESSURE, MAP_PRIVATE);
        char *region = map(SIZE, MAP_PRIVATE), *stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        memset(region, 'x', SIZE);
        press();
        told[0] = getpid();
        told[2] = clone(outlives, stack + SIZE, CLONE_VM | SIGCHLD, region);
        _exit(0);
    }
    int status = 0, ended = 0;
    while (waitpid(maker, 0, 0) != maker) {}
    for (int at = 0; at < 10000 && !ended; at++, usleep(1000)) ended = waitpid(told[2], &status, WNOHANG) == told[2];
    if (!ended) kill(told[2], SIGKILL);
    return !ended || told[1] == 2 || (!told[1] && WTERMSIG(status) != SIGBUS);
}
static int survivor(void) { return outlived(0); }
static int survivor_forks(void) { return outlived(1); }

/* The program finds the signals that end with a core file as it would find them otherwise. */
static volatile int handled;
static void handler(int signal) { handled = signal; }
/* What the C library sets besides, wherever a disposition was set once. */
enum { RESTORER = 0x04000000 };
static int dispositions(void) {
    const int all[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};
    int wrong = 0;
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        struct sigaction found, set = {.sa_handler = handler, .sa_flags = SA_RESTART};
        wrong += sigaction(all[at], 0, &found) || found.sa_handler != SIG_DFL || (found.sa_flags & ~RESTORER);
        sigemptyset(&set.sa_mask);
        sigaddset(&set.sa_mask, SIGUSR1);
        wrong += sigaction(all[at], &set, &found) || found.sa_handler != SIG_DFL;
        raise(all[at]);
        wrong += handled != all[at];
        wrong += signal(all[at], SIG_IGN) != handler;
        raise(all[at]);
        wrong += signal(all[at], SIG_DFL) != SIG_IGN || signal(all[at], SIG_DFL) != SIG_DFL;
        pid_t child = fork();
        if (!child) raise(all[at]), _exit(0);
        int status;
        while (waitpid(child, &status, 0) != child) {}
        wrong += !WIFSIGNALED(status) || WTERMSIG(status) != all[at];
    }
    struct sigaction found;
    wrong += !sigaction(SIGKILL, &(struct sigaction){.sa_handler = handler}, 0) || !sigaction(0, 0, &found);
    return wrong;
}

/* The kernel's own call, past the C library. */
static long futex(void *word, long operation) {
    long answer;
    register long timeout __asm__("r10") = 0;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(SYS_futex), "D"(word), "S"(operation), "d"(0L), "r"(timeout)
                     : "rcx", "r11", "memory");
    return answer;
}

/* Mutexes that inherit priorities, on pages of their own: the C library has the kernel change their words. */
static int inherits_priority(void) {
    pthread_mutexattr_t kind;
    int wrong = 0;
    char *region = map(SIZE, MAP_PRIVATE);
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    for (size_t at = 0; at < SIZE; at += PAGE) pthread_mutex_init((pthread_mutex_t *)(region + at), &kind);
    press();
    for (size_t at = 0; at < SIZE; at += PAGE) wrong += futex(region + at, FUTEX_LOCK_PI_PRIVATE) != 0;
    press();
    for (size_t at = 0; at < SIZE; at += PAGE) wrong += futex(region + at, FUTEX_UNLOCK_PI_PRIVATE) != 0;
    return wrong;
}

/* Words that the kernel changes itself, by the call's number, on pages that are out. */
static int futex_words(void) {
    int wrong = 0;
    char *region = map(SIZE, MAP_PRIVATE);
    for (size_t at = 0; at < SIZE; at += PAGE) *(int *)(region + at + 8) = 1;
    press();
    /* Adds 5 to the second word. */
    int add = FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 77);
    for (size_t at = 0; at < SIZE; at += 2 * PAGE)
        wrong += syscall(SYS_futex, region + at, FUTEX_WAKE_OP_PRIVATE, 1, 1L, region + at + PAGE + 8, add) < 0;
    press();
    for (size_t at = 0; at < SIZE; at += PAGE) {
        wrong += syscall(SYS_futex, region + at, FUTEX_LOCK_PI_PRIVATE, 0, 0L, 0L, 0) < 0;
        wrong += *(int *)(region + at) != (int)syscall(SYS_gettid);
    }
    press();
    for (size_t at = 0; at < SIZE; at += PAGE) {
        wrong += syscall(SYS_futex, region + at, FUTEX_UNLOCK_PI_PRIVATE, 0, 0L, 0L, 0) < 0;
        wrong += *(int *)(region + at) != 0 || *(int *)(region + at + 8) != (at / PAGE % 2 ? 6 : 1);
    }
    return wrong;
}

static const struct {
    const char *name;
    int (*run)(void);
} kinds[] = {
    {"inherits-priority", inherits_priority}, {"futex-words", futex_words},
    {"thread-end", thread_end}, {"process-end", process_end}, {"own-stack", own_stack}, {"own-faults", own_faults},
    {"dispositions", dispositions}, {"survivor", survivor},
    {"survivor-forks", survivor_forks}, {"looked-at", looked_at}, {"own-memory", own_memory},
};

/* Ends with a core file, which must have a page of a pattern for each page of memory. */
static void die(const char *how) {
    char *region = map(SIZE, MAP_PRIVATE);
    for (size_t at = 0; at < SIZE; at += 8) memcpy(region + at, "CORE\xfe\xff\x01\x02", 8);
    press();
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "fault")) *(volatile char *)16 = 1;
    kill(getpid(), SIGQUIT);
    pause();
}

/* Says where memory is that is out, and waits to be looked at. */
static int wait_for_debugger(void) {
    char sink, *region = map(SIZE, MAP_PRIVATE);
    memset(region, 'x', SIZE);
    press();
    printf("%d %p %p\n", getpid(), (void *)region, (void *)qsort_r);
    if (read(0, &sink, 1) < 0) return 1;
    for (size_t at = 0; at < SIZE; at++) if (region[at] != 'x') return 2;
    return 0;
}

/* Attaches to a process, and reads its memory once it has come; how many times that was tried. */
static int debug(pid_t whom, char *region, char *cold) {
    if (ptrace(PTRACE_ATTACH, whom, 0, 0)) return perror("ptrace"), 1;
    waitpid(whom, 0, __WALL);
    int wrong = 1;
    for (int at = 0; at < 1000 && wrong; at++, usleep(10000)) {
        wrong = 0;
        /* Text that nobody has run, too. */
        for (size_t page = 0; page < SIZE; page += PAGE) {
            errno = 0;
            ptrace(PTRACE_PEEKTEXT, whom, cold + page, 0);
            wrong += errno != 0;
        }
        for (size_t page = 0; page < SIZE; page += PAGE) {
            errno = 0;
            long word = ptrace(PTRACE_PEEKDATA, whom, region + page, 0);
            wrong += errno || memcmp(&word, "xxxxxxxx", 8);
        }
    }
    ptrace(PTRACE_DETACH, whom, 0, 0);
    return wrong != 0;
}

int main(int count, char **words) {
    // A shell's background commands begin with this one ignored.
    sigaction(SIGQUIT, &(struct sigaction){.sa_handler = SIG_DFL}, 0);
    int failed = 0;
    setvbuf(stdout, 0, _IONBF, 0);
    if (count == 5) return debug(atoi(words[2]), (char *)strtoul(words[3], 0, 0), (char *)strtoul(words[4], 0, 0));
    pressure = map(PRESSURE, MAP_PRIVATE);
    if (count == 3) die(words[2]);
    if (count == 2) return wait_for_debugger();
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        int wrong = kinds[at].run();
        failed += wrong && wrong != NONE;
        if (!wrong || wrong == NONE) printf("%s %s\n", kinds[at].name, wrong ? "none" : "ok");
        else printf("%s WRONG %d\n", kinds[at].name, wrong);
    }
    return failed != 0;
}
