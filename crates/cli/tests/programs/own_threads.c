/* How many threads a program is told that it has: one, two, and one in a child. Python asks so before it forks, by the
 * line of /proc/self/stat, which is read twice here, and sandboxes before they do, by the links of /proc/self/task, in
 * each way in which one can ask; also where the program has another root by then. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t ready, end;

static void *wait_for_end(void *unused) {
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&end);
    return unused;
}

/* As programs call it that were built long ago. */
int __xstat(int version, const char *path, struct stat *to);
int __fxstatat(int version, int folder, const char *path, struct stat *to, int flags);

static int proc;

/* Two for each folder, and one for each that it is said to hold. */
static long tasks_by(int way) {
    struct stat at = {0};
    struct statx more = {0};
    char path[64];
    int folder = -1, failed = 0;
    snprintf(path, sizeof path, "/proc/%d/task", getpid());
    switch (way) {
    case 0: failed = stat("/proc/self/task", &at); break;
    case 1: failed = lstat("/proc/self/task/.", &at); break;
    case 2: failed = fstatat(proc, "self/task/", &at, 0); break;
    case 3: failed = stat(path, &at); break;
    case 4: failed = (folder = open(path, O_RDONLY | O_DIRECTORY)) < 0 || fstat(folder, &at); break;
    case 5: failed = statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &more), at.st_nlink = more.stx_nlink; break;
    case 6: failed = __xstat(1, path, &at); break;
    case 7: failed = __fxstatat(1, proc, "self/task", &at, AT_SYMLINK_NOFOLLOW); break;
    }
    if (folder >= 0) close(folder);
    return failed ? -6 : (long)at.st_nlink - 2;
}

static long tasks(void) {
    long number = tasks_by(0);
    for (int way = 1; way < 8; way++)
        if (tasks_by(way) != number) return -7 - way;
    return number;
}

/* The folder of another process, and others of this one, are as they are. */
static void others(void) {
    struct stat at = {0};
    printf("%d", stat("/proc/1/task", &at));
    printf(" %ld", stat("/proc/self/fd", &at) ? -1 : (long)at.st_nlink);
    printf(" %ld\n", stat("/proc/self/ns", &at) ? -1 : (long)at.st_nlink);
}

static long threads(void) {
    FILE *stat = fopen("/proc/self/stat", "r");
    char line[1024] = "", again[1024] = "";
    long number = 0;
    int first = 0, second = 0;
    if (!stat || !fgets(line, sizeof line, stat) || line[strlen(line) - 1] != '\n' || fgetc(stat) != EOF)
        return -1;
    rewind(stat);
    if (!fgets(again, sizeof again, stat) || fclose(stat))
        return -2;
    sscanf(line, "%d", &first);
    sscanf(again, "%d", &second);
    if (first != getpid() || second != getpid())
        return -3;
    char *past = strrchr(line, ')');
    long long bytes = 0;
    if (!past || sscanf(past, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %*u %lld",
                        &number, &bytes) != 2 || bytes < 4096)
        return -4;
    return number == tasks() ? number : -5;
}

int main(void) {
    pthread_t thread;
    prctl(PR_SET_NAME, "a) b (c");
    proc = open("/proc", O_RDONLY | O_DIRECTORY);
    others();
    printf("%ld\n", threads());
    pthread_barrier_init(&ready, 0, 2);
    pthread_barrier_init(&end, 0, 2);
    if (pthread_create(&thread, 0, wait_for_end, 0))
        return 1;
    pthread_barrier_wait(&ready);
    printf("%ld\n", threads());
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        printf("%ld\n", threads());
        printf("%d %ld\n", chroot("/tmp"), tasks_by(2));
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(child, 0, 0) != child)
        return 2;
    pthread_barrier_wait(&end);
    pthread_join(thread, 0);
    /* A joined thread may be counted for a moment. */
    for (int tries = 0; tries < 1000 && threads() != 1; tries++)
        usleep(1000);
    printf("%ld\n", threads());
    return 0;
}
