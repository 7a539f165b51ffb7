/* A launcher that forbids its command most of what the agent does, by ending whoever does it, and begins others in each
 * way: the command itself, a child of it by vfork, and one that forks and makes memory. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORBID(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static void forbid(int by_number) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        FORBID(SYS_userfaultfd), FORBID(SYS_process_vm_readv), FORBID(SYS_unshare), FORBID(SYS_ptrace),
        FORBID(SYS_pidfd_open), FORBID(SYS_pidfd_getfd), FORBID(SYS_socket), FORBID(SYS_connect), FORBID(SYS_sendmsg),
        FORBID(SYS_sched_setaffinity), FORBID(SYS_sched_getaffinity), FORBID(SYS_capset), FORBID(SYS_prctl),
        FORBID(SYS_faccessat2), FORBID(SYS_fgetxattr), FORBID(SYS_close_range), FORBID(SYS_eventfd2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) exit(2);
    long set = by_number ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                         : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    if (set) exit(2);
}

static void makes_memory(void) {
    for (int at = 0; at < 64; at++) {
        char *block = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(block, 1, 1 << 16);
        if (at % 2) munmap(block, 1 << 16);
        free(memset(malloc(300000), 1, 300000));
    }
}

static void begins(int way) {
    if (way == 0) {
        execlp("echo", "echo", "the command", NULL);
    } else if (way == 1) {
        pid_t child = vfork();
        if (!child) execlp("echo", "echo", "a child by vfork", NULL), _exit(4);
        int status = 0;
        waitpid(child, &status, 0);
        _exit(status != 0);
    } else if (way == 2) {
        makes_memory();
        pid_t child = fork();
        makes_memory();
        if (!child) execlp("sh", "sh", "-c", "echo in a shell; echo again", NULL), _exit(4);
        int status = 0;
        waitpid(child, &status, 0);
        _exit(status != 0);
    }
    _exit(3);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    for (int way = 0; way < 6; way++) {
        int status = 0;
        pid_t child = fork();
        if (!child) {
            makes_memory();
            forbid(way >= 3);
            begins(way % 3);
        }
        waitpid(child, &status, 0);
        printf("way %d: %#x\n", way, status);
    }
    return 0;
}
