/* Programs of several threads that forbid all of them nearly everything (SECCOMP_FILTER_FLAG_TSYNC), in each way in
 * which a filter can refuse, and go through more memory than they have: every page is as it was left. What is forbidden
 * is forbidden to the program. Filters that are too long, or cannot be read, are refused as the kernel refuses them. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, PAGES = 1024, PAGE = 4096, ROUNDS = 4 };

static volatile int begun, set_up, ended;
/* Shared with the parent, where that stops the child in between and has it go on: 1 once the filter is there, then 2. */
static volatile int *stage;
static int stops;

static void be_stopped(void) {
    if (!stops) return;
    *stage = 1;
    while (*stage != 2) {}
}
static unsigned wrong[THREADS];
static char *memory[THREADS];

static void go_through(char *at, unsigned *bad, unsigned round) {
    for (unsigned page = 0; page < PAGES; page++) {
        unsigned *word = (unsigned *)(at + page * PAGE);
        *bad += *word != page * 7 + round;
        *word = page * 7 + round + 1;
    }
}

static void *work(void *argument) {
    long number = (long)argument;
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    while (!set_up) {}
    for (unsigned round = 0; round < ROUNDS; round++) go_through(memory[number], &wrong[number], round);
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    while (set_up) {}
    return 0;
}

#define PERMIT(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static long forbid(unsigned answer, unsigned flags, int more) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        PERMIT(SYS_write),
        PERMIT(SYS_exit_group),
        PERMIT(SYS_seccomp),
        BPF_STMT(BPF_RET | BPF_K, answer),
    };
    /* Another of the program's own stands above: nothing of the first is lost. */
    struct sock_filter last[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_dup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sock_fprog second = {sizeof last / sizeof *last, last};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    if (more && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &second)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void say(const char *text, unsigned number) {
    char line[100];
    int length = snprintf(line, sizeof line, "%s: %u\n", text, number);
    if (write(1, line, length) != length) _exit(3);
}

static void run(unsigned answer, int more) {
    for (long at = 0; at < THREADS; at++) {
        pthread_t thread;
        memory[at] = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (unsigned page = 0; page < PAGES; page++) *(unsigned *)(memory[at] + page * PAGE) = page * 7;
        if (pthread_create(&thread, 0, work, (void *)at)) _exit(2);
    }
    while (begun < THREADS) {}
    if (forbid(answer, SECCOMP_FILTER_FLAG_TSYNC, more)) _exit(2);
    be_stopped();
    set_up = 1;
    while (ended < THREADS) {}
    unsigned bad = 0;
    for (int at = 0; at < THREADS; at++) bad += wrong[at];
    say("wrong", bad);
    /* Forbidden from here, and the agent does it all the time. */
    char byte[8];
    say("pread", syscall(SYS_pread64, 0, byte, 8, 0) == -1 ? errno : 0);
    say("dup", syscall(SYS_dup, 0) == -1 ? errno : 0);
    _exit(0);
}

/* Forbidden calls end one thread after the other, the first one last or first; or each ends by a call of its own. */
static void *end_one(void *argument) {
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    while (!set_up) {}
    syscall(argument ? SYS_exit : SYS_getppid, 5);
    return argument;
}

static void one_by_one(unsigned answer, int by_itself, int first) {
    for (long at = 0; at < THREADS; at++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, end_one, (void *)(long)by_itself)) _exit(2);
    }
    while (begun < THREADS) {}
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        PERMIT(SYS_write), PERMIT(SYS_nanosleep), PERMIT(SYS_clock_nanosleep), PERMIT(SYS_exit),
        BPF_STMT(BPF_RET | BPF_K, answer),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(2);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) _exit(2);
    be_stopped();
    set_up = 1;
    if (!first) usleep(300000);
    syscall(by_itself ? SYS_exit : SYS_getppid, 5);
    while (1) {}
}

static void refusals(void) {
    static struct sock_filter rules[4097];
    for (unsigned at = 0; at < 4097; at++) rules[at] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    static const unsigned lengths[] = {0, 4097, 4096, 4000, 3900, 1};
    char *hole = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole + PAGE, PAGE);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(2);
    struct sock_fprog missing = {64, (struct sock_filter *)(hole + PAGE - 8)};
    for (int at = 0; at < 2; at++) {
        const void *bad = at ? (const void *)&missing : (const void *)(hole + PAGE - 8);
        long set = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, bad);
        say("cannot be read", set ? errno : 0);
    }
    for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        struct sock_fprog program = {lengths[at], rules};
        long set = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
        say("length", set ? errno : 0);
    }
    _exit(0);
}

/* Stops the child some times. The kernel has threads that wait for a time go on by a call of its own then
 * (restart_syscall(2)), and asks the filter about that one, too. */
static void stop(pid_t child) {
    siginfo_t found;
    while (*stage != 1) usleep(1000);
    for (int times = 0; times < 4; times++) {
        kill(child, SIGSTOP);
        if (waitid(P_PID, child, &found, WSTOPPED | WEXITED | WNOWAIT) || found.si_code != CLD_STOPPED) break;
        usleep(20000);
        kill(child, SIGCONT);
        usleep(20000);
    }
    *stage = 2;
}

int main(void) {
    static const unsigned answers[] = {SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | ENOSYS, SECCOMP_RET_KILL_PROCESS,
                                       SECCOMP_RET_TRAP};
    setvbuf(stdout, 0, _IONBF, 0);
    stage = mmap(0, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned way = 0; way < 16; way++) {
        int status = 0;
        *stage = 0;
        pid_t child = fork();
        stops = way > 12;
        if (!child && way == 8) refusals();
        if (!child && way > 13) run(answers[way % 4], 0);
        if (!child && way > 8) one_by_one(SECCOMP_RET_KILL_THREAD, way % 2, way < 11);
        if (!child) run(answers[way % 4], way >= 4);
        if (stops) stop(child);
        waitpid(child, &status, 0);
        printf("way %u: %#x\n", way, status);
    }
    return 0;
}
