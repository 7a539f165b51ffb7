/* A program that goes where the server's socket cannot be reached by its path, and forks there: "NAME: right" for each
 * way, from the child and from a child of it. argv[1] is a folder for it, argv[2] a file to remove, or nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 6 << 20, PAGE = 4096 };
static unsigned char *region;
static const char *folder, *gone;

static int holds(unsigned char salt) {
    for (size_t at = 0; at < SIZE; at += PAGE) {
        if (region[at] != (unsigned char)(at / PAGE + salt)) return 0;
    }
    return 1;
}

static void fill(unsigned char salt) {
    for (size_t at = 0; at < SIZE; at += PAGE) region[at] = (unsigned char)(at / PAGE + salt);
}

static int descriptors(void) {
    int open = 0;
    for (int fd = 0; fd < 256; fd++) open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

/* Memory of its own, more than there is room for. */
static int makes_memory(void) {
    unsigned char *own = malloc(SIZE);
    memset(own, 0x5A, SIZE);
    for (size_t at = 0; at < SIZE; at += PAGE) {
        if (own[at] != 0x5A) return 0;
    }
    free(own);
    return 1;
}

static int hidden(void) {
    return unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0) ||
           mount("none", "/run", "tmpfs", 0, 0) || mount("none", "/tmp", "tmpfs", 0, 0);
}
static int other_root(void) { return chroot(folder) || chdir("/"); }
static int other_user(void) { return setgroups(0, 0) || setgid(65534) || setuid(65534); }
static int numbers(void) { return unshare(CLONE_NEWPID); }
static int network(void) { return unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS); }
static int all(void) { return network() || numbers() || hidden(); }
static int removed(void) { return gone && unlink(gone); }

static pid_t by_number(void) { return syscall(SYS_fork); }

static int child_is_right(pid_t (*forks)(void), int depth, int before) {
    fill(depth);
    pid_t child = forks();
    if (child < 0) return perror("fork"), 0;
    if (!child) {
        int right = holds(depth) && descriptors() == before;
        fill(depth + 1);
        right = right && makes_memory() && holds(depth + 1);
        if (depth < 2) right = right && child_is_right(forks, depth + 1, before);
        _exit(right ? 0 : 1);
    }
    fill(0x77);
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0 && holds(0x77) && descriptors() == before;
}

static void go(const char *name, int (*away)(void)) {
    pid_t child = fork();
    if (!child) {
        if (away()) {
            /* Where that is not allowed, it is not tried in any size. */
            printf("%s: not tried\n", name);
            _exit(0);
        }
        int before = descriptors();
        printf("%s: %s\n", name, child_is_right(fork, 0, before) ? "right" : "WRONG");
        /* A name space of processes takes no more of them when its first has ended. */
        if (away != numbers && away != all) {
            printf("%s, by number: %s\n", name, child_is_right(by_number, 0, before) ? "right" : "WRONG");
        }
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status) printf("%s: ended with %#x\n", name, status);
}

static int nowhere(void) { return 0; }

int main(int count, char **words) {
    setvbuf(stdout, 0, _IONBF, 0);
    folder = words[1];
    gone = count > 2 ? words[2] : 0;
    region = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(0);
    go("as it is", nowhere);
    go("another mount name space", hidden);
    go("another root", other_root);
    go("another user", other_user);
    go("another process name space", numbers);
    go("another network", network);
    go("all of them", all);
    go("without the socket", removed);
    go("without the socket, in another process name space", numbers);
    return 0;
}
