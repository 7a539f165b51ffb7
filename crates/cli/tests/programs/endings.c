/* Children that end past the C library: by a system call of their only thread, or by a filter of system calls that ends
 * the thread. And one that begins programs by paths that cannot be read. Prints how each has ended. */
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
    default: begins_nothing();
    }
    _exit(99);
}

int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int way = 0; way < 10; way++) {
        int status = 0;
        pid_t child = fork();
        if (!child) end(way);
        waitpid(child, &status, 0);
        printf("way %d: %#x\n", way, status);
        fflush(stdout);
    }
    return 0;
}
