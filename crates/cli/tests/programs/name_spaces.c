/* Calls that the kernel refuses to a process of several threads, in each way in which a program can make them; and that
 * all goes on afterwards: its memory, children, programs that it begins, descriptors, threads, its class. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 1536
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static unsigned char *memory;

static void fill(unsigned seed) {
    for (int page = 0; page < PAGES; page++) memset(memory + page * PAGE, (unsigned char)(page * 7 + seed), PAGE);
}

static int is_whole(unsigned seed) {
    for (int page = 0; page < PAGES; page++)
        for (int at = 0; at < PAGE; at += 255)
            if (memory[page * PAGE + at] != (unsigned char)(page * 7 + seed)) return 0;
    return 1;
}

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void *nothing(void *unused) { return unused; }

/* A child of it, a program that it begins, a thread: 7 where all can be had. */
static int goes_on(unsigned seed) {
    int status, can = 0;
    pid_t child = fork();
    if (child == 0) _exit(is_whole(seed) ? (fill(seed + 1), is_whole(seed + 1) ? 3 : 4) : 5);
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3) can |= 1;
    child = fork();
    if (child == 0) execl("/bin/sh", "sh", "-c", "exit 9", (char *)0), _exit(1);
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9) can |= 2;
    pthread_t thread;
    if (pthread_create(&thread, 0, nothing, 0) == 0 && pthread_join(thread, 0) == 0) can |= 4;
    return can;
}

static void after(const char *what, int answer, int error, int before, unsigned seed) {
    struct sched_param own;
    sched_getparam(0, &own);
    printf("%s %d %d, memory %d", what, answer, answer ? error : 0, is_whole(seed));
    printf(", descriptors %d, goes on %d, class %d %d", descriptors() - before, goes_on(seed), sched_getscheduler(0),
           own.sched_priority);
    fill(seed + 2);
    printf(", memory %d\n", is_whole(seed + 2));
    fflush(stdout);
}

/* Each in a child of its own. */
static void each(const char *what, int (*call)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fill(1);
        int before = descriptors(), answer = call();
        after(what, answer, errno, before, 1);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status) printf("%s ended %#x\n", what, (unsigned)status);
}

static int user(void) { return unshare(CLONE_NEWUSER); }
static int user_by_number(void) { return (int)syscall(SYS_unshare, CLONE_NEWUSER); }
static int twice(void) { return unshare(CLONE_NEWUSER) || unshare(CLONE_NEWUSER); }
static int much(void) { return unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_FILES | CLONE_FS); }
static int processes(void) { return unshare(CLONE_NEWUSER | CLONE_NEWPID); }
static int times(void) { return unshare(CLONE_NEWUSER | CLONE_NEWTIME); }
static int times_first(void) { return unshare(CLONE_NEWTIME) ? -9 : unshare(CLONE_NEWUSER); }
static int alone(void) { return unshare(CLONE_VM) || unshare(CLONE_THREAD) || unshare(CLONE_SIGHAND); }
static int nonsense(void) { return unshare(CLONE_NEWUSER | CLONE_VFORK); }
/* As deep as the kernel lets one go, with the one user of each in the next. */
static int nested(void) {
    char map[64];
    unsigned user = geteuid();
    for (int depth = 0;; depth++, user = 0) {
        if (unshare(CLONE_NEWUSER)) return depth;
        static const char *files[] = {"/proc/self/setgroups", "/proc/self/gid_map", "/proc/self/uid_map"};
        for (int file = 0; file < 3; file++) {
            int length = snprintf(map, sizeof map, file ? "0 %u 1" : "deny", user), fd = open(files[file], O_WRONLY);
            if (fd < 0 || write(fd, map, (size_t)length) != length) return -6;
            close(fd);
        }
    }
}

static pthread_barrier_t ready, end;
static void *wait_for_end(void *unused) {
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&end);
    return unused;
}

static int beside_a_thread(void) {
    pthread_t thread;
    pthread_barrier_init(&ready, 0, 2), pthread_barrier_init(&end, 0, 2);
    pthread_create(&thread, 0, wait_for_end, 0);
    pthread_barrier_wait(&ready);
    int answer = unshare(CLONE_NEWUSER), error = errno;
    pthread_barrier_wait(&end);
    pthread_join(thread, 0);
    errno = error;
    return answer;
}

/* Joins what a child has taken: by its file, by its process. */
static int join(int by_process, int kind, int taken) {
    int told[2], ends[2], error;
    char byte, path[64];
    if (pipe(told) || pipe(ends)) return -9;
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD | taken, 0, 0, 0, 0);
    if (child == 0) {
        close(ends[1]);
        if (write(told[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 0) _exit(1);
        _exit(0);
    }
    if (child < 0) return -8;
    close(ends[0]), close(told[1]);
    if (read(told[0], &byte, 1) != 1) return -7;
    snprintf(path, sizeof path, "/proc/%d/ns/user", child);
    int fd = by_process ? (int)syscall(SYS_pidfd_open, child, 0) : open(path, O_RDONLY | O_CLOEXEC);
    int answer = setns(fd, kind);
    error = errno;
    close(fd), close(ends[1]), close(told[0]);
    waitpid(child, 0, 0);
    errno = error;
    return answer;
}

static int join_file(void) { return join(0, 0, CLONE_NEWUSER); }
static int join_kind(void) { return join(0, CLONE_NEWUSER, CLONE_NEWUSER); }
static int join_wrong_kind(void) { return join(0, CLONE_NEWNET, CLONE_NEWUSER); }
static int join_process(void) { return join(1, CLONE_NEWUSER, CLONE_NEWUSER); }
static int join_several(void) { return join(1, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS, CLONE_NEWUSER | CLONE_NEWNS); }
static int join_no_kind(void) { return join(1, 0, CLONE_NEWUSER); }
static int join_own(void) { return join(0, CLONE_NEWUSER, 0); }

/* Where no thread can be started afterwards, the agent stays, and what it is in the way of is refused. */
static int processes_first(void) { return unshare(CLONE_NEWPID) ? -9 : unshare(CLONE_NEWUSER); }
static int past_a_limit(void) {
    struct rlimit most = {1, 1};
    return setrlimit(RLIMIT_NPROC, &most) || setgid(30001) || setuid(30001) ? -9 : unshare(CLONE_NEWUSER);
}

int main(int count, char **arguments) {
    memory = malloc(PAGES * PAGE);
    if (count > 1 && strcmp(arguments[1], "refused") == 0) {
        each("processes first", processes_first);
        if (geteuid() == 0) each("past a limit", past_a_limit);
        return 0;
    }
    each("user", user);
    each("by number", user_by_number);
    each("twice", twice);
    each("much", much);
    each("processes", processes);
    each("times", times);
    each("times first", times_first);
    each("alone", alone);
    each("nonsense", nonsense);
    each("nested", nested);
    each("beside a thread", beside_a_thread);
    each("join file", join_file);
    each("join kind", join_kind);
    each("join wrong kind", join_wrong_kind);
    each("join process", join_process);
    each("join several", join_several);
    each("join no kind", join_no_kind);
    each("join own", join_own);
    struct sched_param fifo = {.sched_priority = 7};
    if (sched_setscheduler(0, SCHED_FIFO, &fifo) == 0) each("real-time", user);
    fifo.sched_priority = 9;
    if (sched_setscheduler(0, SCHED_RR, &fifo) == 0) each("by turns", user);
    fifo.sched_priority = 0;
    if (sched_setscheduler(0, SCHED_BATCH, &fifo) == 0) each("batch", user);
    if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &fifo) == 0) each("reset", user);
    return 0;
}
