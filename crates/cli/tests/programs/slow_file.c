// A file system (FUSE) of one file, `memfd:x`, that is mounted nowhere any more. Sends a descriptor of the file through
// the socket that is its standard input, and says so by another byte. From then on it tells the kernel the file's
// attributes once more, and answers nothing else until its input ends. With the argument `write` the file can be
// written, and of all that is asked only what is written is not answered. Prints why where it cannot.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (1 << 20)

static int device, writes;
static atomic_int left = 1 << 20;

static struct fuse_attr attributes(uint64_t node)
{
    struct fuse_attr attr = { .ino = node, .nlink = 1, .uid = 65534, .gid = 65534, .blksize = 4096 };
    attr.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644;
    attr.size = node == 1 ? 0 : SIZE;
    return attr;
}

static void answer(uint64_t unique, int error, const void *body, size_t length)
{
    static char buffer[SIZE];
    struct fuse_out_header head = { .len = sizeof head + length, .error = error, .unique = unique };
    memcpy(buffer, &head, sizeof head);
    if (length > 0)
        memcpy(buffer + sizeof head, body, length);
    if (write(device, buffer, head.len) < 0)
        perror("answer");
}

static void *serve(void *unused)
{
    static char request[SIZE + 4096], zeros[SIZE / 2];
    const struct fuse_in_header *in = (const void *)request;
    while (read(device, request, sizeof request) > 0) {
        const void *body = request + sizeof *in;
        if (in->opcode == FUSE_GETATTR && atomic_load(&left) > 0) {
            atomic_fetch_sub(&left, 1);
            struct fuse_attr_out out = { .attr = attributes(in->nodeid) };
            answer(in->unique, 0, &out, sizeof out);
        } else if (atomic_load(&left) < 1000 || in->opcode == FUSE_FORGET) {
            continue;
        } else if (in->opcode == FUSE_INIT) {
            struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION };
            out.max_write = 4096;
            answer(in->unique, 0, &out, sizeof out);
        } else if (in->opcode == FUSE_LOOKUP) {
            struct fuse_entry_out out = { .nodeid = 2, .attr = attributes(2) };
            answer(in->unique, 0, &out, sizeof out);
        } else if (in->opcode == FUSE_OPEN) {
            struct fuse_open_out out = { .fh = 1 };
            answer(in->unique, 0, &out, sizeof out);
        } else if (in->opcode == FUSE_READ) {
            answer(in->unique, 0, zeros, ((const struct fuse_read_in *)body)->size);
        } else if (in->opcode == FUSE_FLUSH) {
            // Who is told that there is none asks no more.
            answer(in->unique, 0, NULL, 0);
        } else if (in->opcode != FUSE_WRITE) {
            answer(in->unique, -38, NULL, 0);
        }
    }
    return unused;
}

static void hand_over(int file)
{
    char byte = 0, control[CMSG_SPACE(sizeof file)] = { 0 };
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(rights), &file, sizeof file);
    sendmsg(0, &message, 0);
}

static int fail(const char *what)
{
    printf("%s: %m\n", what);
    return 1;
}

int main(int count, char **arguments)
{
    writes = count > 1 && !strcmp(arguments[1], "write");
    char folder[] = "/tmp/freehold-slow-XXXXXX", options[128], path[64];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0)
        return fail("/dev/fuse");
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return fail("a mount namespace");
    if (!mkdtemp(folder))
        return fail("a folder");
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=65534,group_id=65534,allow_other", device);
    int mounted = mount("slow", folder, "fuse", MS_NOSUID | MS_NODEV, options);
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    snprintf(path, sizeof path, "%s/memfd:x", folder);
    int file = mounted == 0 ? open(path, writes ? O_RDWR : O_RDONLY) : -1;
    if (file < 0) {
        umount2(folder, MNT_DETACH);
        rmdir(folder);
        return fail("a mount");
    }
    // The file's path is its name alone then.
    umount2(folder, MNT_DETACH);
    rmdir(folder);
    hand_over(file);
    // Nothing of it is open here any more: a process cannot end while its own file system does not answer it.
    close(file);
    if (!writes)
        atomic_store(&left, 1);
    char byte = 0;
    if (write(0, &byte, 1) < 0)
        return fail("the socket");
    while (read(0, &byte, 1) > 0)
        ;
    _exit(0);
}
