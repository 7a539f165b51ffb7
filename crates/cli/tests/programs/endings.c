/* Children that end past the C library: by a system call of their only thread, or by a filter of system calls that ends
 * the thread. And such that begin programs by paths, or with environments, that cannot be read. Prints how each has ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void end_calls_by(unsigned action, const int *calls, int count, unsigned flags) {
    struct sock_filter rules[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int length = 1;
    for (; length <= count; length++) {
        struct sock_filter rule = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[length - 1], count - length + 1, 0);
        rules[length] = rule;
    }
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), end = BPF_STMT(BPF_RET | BPF_K, action);
    rules[length++] = allow;
    rules[length++] = end;
    struct sock_fprog program = {length, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program)) _exit(90);
}

static void end_getppid_by(unsigned action) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(90);
    syscall(SYS_getppid);
}

static void handles(int signal) {
    _exit(80 + signal % 10);
}

static void *ends_thread(void *none) {
    syscall(SYS_exit, 9);
    return none;
}

static void with_a_thread(void) {
    pthread_t thread;
    pthread_create(&thread, 0, ends_thread, 0);
    pthread_join(thread, 0);
}

static void begins_nothing(void) {
    char *gone = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *arguments[] = {"nothing", 0}, *unreadable[] = {gone, (char *)-1, 0};
    for (int at = 0; unreadable[at]; at++) {
        errno = 0;
        execve(unreadable[at], arguments, environ);
        if (errno != EFAULT) _exit(70);
        errno = 0;
        execveat(-100, unreadable[at], arguments, environ, 0);
        if (errno != EFAULT) _exit(71);
    }
    _exit(0);
}

/* An environment that cannot be read, in each of its parts. */
static void begins_nothing_with_environment(void) {
    char *pages = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gone = pages + 4096, *end = pages + 4096 - 3, *last = pages + 3 * 4096;
    memset(pages, 'a', 4096);
    mprotect(gone, 4096, PROT_NONE);
    char *arguments[] = {"true", 0}, *text[] = {"A=b", gone, 0}, *no_end[] = {"A=b", end, 0}, *wild[] = {(char *)-1, 0};
    char **no_last = (char **)gone - 1, **split = (char **)(last - 4), **after = (char **)(last + 4096) - 1;
    munmap(last, 4096);
    *no_last = "A=b";
    char **all[] = {(char **)gone, (char **)-1, text, no_end, wild, no_last, split, after};
    for (unsigned at = 0; at < sizeof all / sizeof *all; at++) {
        errno = 0;
        execve("/bin/true", arguments, all[at]);
        if (errno != EFAULT) _exit(60 + at);
        errno = 0;
        execve("/nothing", arguments, all[at]);
        if (errno != ENOENT) _exit(50 + at);
    }
    execve("/bin/true", arguments, 0);
}

/* A filter for all threads, of which there is one. The memory is used after it, twice what a small size holds. */
static void synchronises(unsigned action) {
    enum { BYTES = 8 << 20 };
    static const int calls[] = {SYS_ioctl, SYS_madvise, SYS_futex, SYS_pwrite64, SYS_pread64, SYS_getppid};
    char *memory = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, BYTES);
    /* As libraries find out what the kernel knows. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0) != -1 || errno != EFAULT) _exit(91);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, 0) != -1 || errno != EFAULT) _exit(92);
    end_calls_by(action, calls, sizeof calls / sizeof *calls, SECCOMP_FILTER_FLAG_TSYNC);
    for (int round = 1; round < 4; round++)
        for (int at = 0; at < BYTES; at += 4096)
            if (memory[at]++ != round) syscall(SYS_exit_group, 40);
}

static void end(int way) {
    switch (way) {
    case 0: syscall(SYS_exit, 7); break;
    case 1: with_a_thread(), syscall(SYS_exit, 8); break;
    case 2: prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), syscall(SYS_exit, 5); break;
    case 3: prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), syscall(SYS_close, 7); break;
    case 4: end_getppid_by(SECCOMP_RET_KILL_THREAD); break;
    case 5: signal(SIGSYS, handles), signal(SIGTERM, handles), end_getppid_by(SECCOMP_RET_KILL_THREAD); break;
    case 6: end_getppid_by(SECCOMP_RET_KILL_PROCESS); break;
    case 7: signal(SIGSYS, handles), end_getppid_by(SECCOMP_RET_TRAP); break;
    case 8: end_getppid_by(SECCOMP_RET_ALLOW), syscall(SYS_exit, 6); break;
    case 9: begins_nothing(); break;
    case 10: begins_nothing_with_environment(); break;
    case 11: synchronises(SECCOMP_RET_KILL_PROCESS), syscall(SYS_exit_group, 4); break;
    case 12: synchronises(SECCOMP_RET_KILL_PROCESS), syscall(SYS_getppid); break;
    case 13: synchronises(SECCOMP_RET_KILL_THREAD), syscall(SYS_getppid); break;
    default: synchronises(SECCOMP_RET_TRAP), syscall(SYS_exit, 3);
    }
    _exit(99);
}

int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int way = 0; way < 15; way++) {
        int status = 0;
        pid_t child = fork();
        if (!child) end(way);
        waitpid(child, &status, 0);
        printf("way %d: %#x\n", way, status);
        fflush(stdout);
    }
    return 0;
}
