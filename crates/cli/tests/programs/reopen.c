// Does to the descriptor that is its standard input whatever the kernel lets this user do, and prints what succeeded
// that must not. Its argument says what the descriptor is for: "read" (nobody who has it may change anything), "write"
// (content is its holder's too), or "signal" (an event descriptor, which cannot be opened again).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PAGE 4096
#define FUTURE_WRITE 0x0010

static int bad;

static void must_fail(int succeeded, const char *what, const char *how)
{
    if (succeeded) {
        printf("%s, by the descriptor %s\n", what, how);
        bad = 1;
    }
}

// Changes of content.
static void write_to(int fd, const char *how)
{
    static const char bytes[PAGE] = "changed by another user";
    must_fail(pwrite(fd, bytes, PAGE, 0) >= 0, "written", how);
    struct iovec part = { (void *)bytes, PAGE };
    must_fail(pwritev2(fd, &part, 1, 0, RWF_NOWAIT) >= 0, "written without waiting", how);
    int source = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    must_fail(sendfile(fd, source, NULL, PAGE) >= 0, "written by sendfile", how);
    must_fail(copy_file_range(source, NULL, fd, NULL, PAGE, 0) >= 0, "written by copy_file_range", how);
    int pipes[2];
    if (pipe(pipes) == 0 && write(pipes[1], bytes, PAGE) == PAGE)
        must_fail(splice(pipes[0], NULL, fd, NULL, PAGE, 0) >= 0, "written by splice", how);
    close(pipes[0]);
    close(pipes[1]);
    close(source);
    for (int mode = 0; mode < 0x80; mode++)
        must_fail(fallocate(fd, mode, 0, PAGE) == 0, "allocated or punched", how);
    void *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must_fail(map != MAP_FAILED, "mapped writable", how);
    if (map != MAP_FAILED) {
        memcpy(map, bytes, PAGE);
        munmap(map, PAGE);
    }
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) {
        must_fail(mprotect(map, PAGE, PROT_READ | PROT_WRITE) == 0, "made writable", how);
        must_fail(madvise(map, PAGE, MADV_REMOVE) == 0, "removed", how);
        int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
        must_fail(memory >= 0 && pwrite(memory, bytes, PAGE, (off_t)(size_t)map) >= 0, "written by /proc/self/mem", how);
        char path[64];
        snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (long)map, (long)map + PAGE);
        must_fail(open(path, O_RDWR | O_CLOEXEC) >= 0, "opened by its mapping", how);
        close(memory);
        munmap(map, PAGE);
    }
}

// Changes of what it is.
static void change(int fd, const char *how)
{
    must_fail(ftruncate(fd, 0) == 0, "cut off", how);
    must_fail(ftruncate(fd, 1L << 40) == 0, "made longer", how);
    must_fail(fchmod(fd, 0777) == 0, "given other rights", how);
    must_fail(fchown(fd, getuid(), getgid()) == 0, "given to another", how);
    must_fail(fsetxattr(fd, "user.x", "x", 1, 0) == 0, "given an attribute", how);
    must_fail(futimens(fd, NULL) == 0, "given other times", how);
    must_fail(fcntl(fd, F_SETLEASE, F_RDLCK) == 0, "leased", how);
    int seals[] = { F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, FUTURE_WRITE };
    for (size_t at = 0; at < sizeof seals / sizeof *seals; at++)
        must_fail(fcntl(fd, F_ADD_SEALS, seals[at]) == 0, "sealed", how);
}

static void open_again(const char *path, int flags, const char *how)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    must_fail(fd >= 0, "opened again", how);
    if (fd >= 0) {
        write_to(fd, how);
        change(fd, how);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/0", (int)getpid());
    const char *paths[] = { "/proc/self/fd/0", "/dev/fd/0", path };
    for (size_t at = 0; at < sizeof paths / sizeof *paths; at++) {
        open_again(paths[at], O_RDWR, "opened for both");
        open_again(paths[at], O_WRONLY, "opened for writing");
        open_again(paths[at], O_WRONLY | O_APPEND, "opened for appending");
        open_again(paths[at], O_RDWR | O_TRUNC, "opened to be cut off");
        must_fail(truncate(paths[at], 0) == 0, "cut off", "by its path");
        must_fail(chmod(paths[at], 0777) == 0, "given other rights", "by its path");
        open_again(paths[at], O_RDONLY, "opened for reading");
    }
    if (strcmp(kind, "read") == 0)
        write_to(0, "as it is");
    if (strcmp(kind, "signal") != 0)
        change(0, "as it is");
    return bad;
}
