/* A program of two threads under a filter for both, which ends whichever thread makes a call that it does not know.
 * Goes through more memory than it may keep, until the server ends; whoever finds a wrong byte says so. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 4096, WORDS = 512 };

#define PERMIT(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static volatile int begun;

static void *wait_for(void *none)
{
    begun = 1;
    pthread_mutex_lock(&held);
    return none;
}

int main(void)
{
    pthread_t thread;
    uint64_t *memory = malloc((size_t)PAGES * 4096);
    if (!memory)
        return 2;
    for (size_t word = 0; word < (size_t)PAGES * WORDS; word++)
        memory[word] = word * 0x9E3779B97F4A7C15u + 1;
    pthread_mutex_lock(&held);
    if (pthread_create(&thread, 0, wait_for, 0))
        return 2;
    while (!begun)
        usleep(100);
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        PERMIT(SYS_write), PERMIT(SYS_exit_group), PERMIT(SYS_restart_syscall),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        return 3;
    if (write(1, "child 0\n", 8) != 8)
        _exit(4);
    for (;;)
        for (size_t word = 0; word < (size_t)PAGES * WORDS; word += 73)
            if (memory[word] != word * 0x9E3779B97F4A7C15u + 1) {
                if (write(1, "wrong\n", 6) != 6)
                    _exit(4);
                _exit(1);
            }
}
