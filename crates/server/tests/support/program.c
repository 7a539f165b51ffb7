/* A client as the agent makes one of a program: private memory with events, a thread that carries out orders.
   Commands come over the socket that is standard input, as to the other clients of these tests. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/futex.h>

#define PAGE 4096UL
#define ORDERS 512
#define STAGING 64
#ifndef UFFDIO_MOVE
struct uffdio_move { uint64_t dst, src, len, mode; int64_t move; };
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#endif
#define FEATURE_MOVE (1ULL << 16)
#define FEATURE_WP_SHMEM (1ULL << 12)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct ring { _Atomic uint32_t written; char a[60]; _Atomic uint32_t read; char b[60]; _Atomic uint64_t entries[ORDERS][3]; };
struct channel { _Atomic uint32_t bell, asleep; char a[56]; struct ring orders, replies; };

static int private_fd, shared_fd, mover_fd, event_fd;
static struct channel *channel;
static unsigned char *transfer, *staging;
static size_t transfer_pages;
static _Atomic uint32_t agent_thread;
static _Atomic int deaf;
/* Orders are answered "busy". */
static _Atomic int busy;
/* A page that is dropped is told of only when this ends; so many so far. */
static _Atomic int slow, dropped;
/* Orders are carried out, and what was taken is neither handed over nor answered; so many so far. */
static _Atomic int losing, lost;
/* A page that the agent itself touches before each order, and drops again. */
static volatile uint64_t *_Atomic clumsy;
static struct { unsigned char *base; size_t pages; } maps[256];
static int map_count;

static void die(const char *what) { fprintf(stderr, "program: %s: %s\n", what, strerror(errno)); _exit(9); }

static int userfault(uint64_t features)
{
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = { .api = UFFD_API, .features = features };
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) die("userfaultfd");
    return fd;
}

static void enroll(int fd, void *base, size_t length, uint64_t mode)
{
    struct uffdio_register range = { .range = { (uint64_t)base, length }, .mode = mode };
    if (ioctl(fd, UFFDIO_REGISTER, &range)) die("register");
}

/* A page that is shared with a child is the program's own first: what may have been written since is not dropped. */
static int move_out(uint64_t address, unsigned char *to, int drops)
{
    for (int attempt = 0; attempt < 64; attempt++) {
        struct uffdio_move move = { .dst = (uint64_t)to, .src = address, .len = PAGE };
        if (!ioctl(mover_fd, UFFDIO_MOVE, &move)) return 1;
        if (errno == ENOENT) return 4;
        if (errno == EBUSY) {
            if (attempt == 2) return 3;
            madvise((void *)address, PAGE, MADV_POPULATE_WRITE);
            if (drops) return 3;
            continue;
        }
        if (errno != EAGAIN) return 5;
    }
    return 3;
}

static int obey(uint64_t first, uint64_t second, uint64_t address, int *used)
{
    static const unsigned char zeros[PAGE];
    uint32_t action = (uint32_t)first, pages = second >> 32, slot = (uint32_t)second;
    if (action >= 4) return 1;
    if (action == 1) return madvise((void *)address, pages * PAGE, MADV_DONTNEED) ? 5 : 1;
    unsigned char *to = staging + (*used)++ * PAGE;
    int outcome = move_out(address, to, action == 3);
    if (outcome == 1 && action == 2) {
        if (slot >= transfer_pages) die("slot");
        if (memcmp(to, zeros, PAGE) == 0) outcome = 2;
        else memcpy(transfer + slot * PAGE, to, PAGE);
    }
    if (*used == STAGING) { madvise(staging, STAGING * PAGE, MADV_DONTNEED); *used = 0; }
    return outcome;
}

static void *agent(void *unused)
{
    uint32_t read = 0, written = 0;
    int used = 0;
    agent_thread = syscall(SYS_gettid);
    while (!channel) usleep(100);
    for (;;) {
        uint32_t bell = channel->bell;
        int any = 0;
        while (channel->orders.written != read) {
            _Atomic uint64_t *entry = channel->orders.entries[read % ORDERS];
            uint64_t first = entry[0], second = entry[1], address = entry[2];
            channel->orders.read = ++read;
            if (deaf) continue;
            volatile uint64_t *own = clumsy;
            if (own) { *own = 1; madvise((void *)own, PAGE, MADV_DONTNEED); }
            if (losing) { if (move_out(address, staging + used++ * PAGE, 0) == 1) lost++; continue; }
            uint64_t outcome = busy ? 3 : obey(first, second, address, &used);
            if (outcome == 1 && (uint32_t)first == 3) {
                dropped++;
                while (slow) usleep(1000);
            }
            _Atomic uint64_t *reply = channel->replies.entries[written % ORDERS];
            reply[0] = (first >> 32 << 32) | outcome;
            channel->replies.written = ++written;
            any = 1;
        }
        if (any) {
            uint64_t one = 1;
            if (write(event_fd, &one, 8) != 8) die("event");
            continue;
        }
        channel->asleep = 1;
        if (channel->bell == bell) syscall(SYS_futex, &channel->bell, FUTEX_WAIT, bell, NULL, NULL, 0);
        channel->asleep = 0;
    }
    return unused;
}

static uint64_t pattern(uint64_t seed, uint64_t page) { return (seed << 32 | page) * 0x9e3779b97f4a7c15ULL | 1; }
static volatile uint64_t *word(uint64_t map, uint64_t page) { return (volatile uint64_t *)(maps[map].base + page * PAGE); }

struct job { uint64_t map, first, count, seed, bad; int check, thread, threads; };

static void *run(void *argument)
{
    struct job *job = argument;
    for (uint64_t page = job->first + job->thread; page < job->first + job->count; page += job->threads) {
        if (job->check) job->bad += *word(job->map, page) != pattern(job->seed, page);
        else *word(job->map, page) = pattern(job->seed, page);
    }
    return NULL;
}

/* Page by page in turn, as if dealt out. */
static uint64_t in_threads(const uint64_t *w, int check, int count)
{
    struct job jobs[3];
    pthread_t threads[3];
    uint64_t bad = 0;
    for (int i = 0; i < count; i++) {
        jobs[i] = (struct job){ w[1], w[2], w[3], w[4], 0, check, i, count };
        if (pthread_create(&threads[i], NULL, run, &jobs[i])) die("thread");
    }
    for (int i = 0; i < count; i++) { pthread_join(threads[i], NULL); bad += jobs[i].bad; }
    return bad;
}

static void *churn(void *argument)
{
    uint64_t *w = argument, random = w[3] | 1;
    for (;;) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        uint64_t page = random % w[2];
        if (random >> 60 == 0) madvise((void *)word(w[1], page), PAGE, MADV_DONTNEED);
        else if (random >> 40 & 1) *word(w[1], page) = pattern(7, page);
        else { uint64_t found = *word(w[1], page); if (found && found != pattern(7, page)) _exit(3); }
    }
}

static uint64_t forked(const uint64_t *w)
{
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        uint64_t bad = 0;
        for (uint64_t page = w[2]; page < w[2] + w[3]; page++) bad += *word(w[1], page) != pattern(w[4], page);
        for (uint64_t page = w[2]; page < w[2] + w[3]; page++) *word(w[1], page) = 1;
        _exit(bad > 250 ? 250 : bad);
    }
    int status;
    /* The parent writes at once: the child must not see it. */
    for (uint64_t page = w[2]; page < w[2] + w[3]; page += 2) *word(w[1], page) = pattern(w[4] + 1, page);
    if (waitpid(child, &status, 0) != child) die("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 999;
}

static sigjmp_buf after_error;
static void *_Atomic error_at;
static void on_error(int signal, siginfo_t *info, void *context)
{
    (void)signal; (void)context;
    error_at = info->si_addr;
    siglongjmp(after_error, 1);
}

/* Reads a page's word; the error's number where that raised SIGBUS for this very page. */
static uint64_t touch(uint64_t map, uint64_t page)
{
    struct sigaction action = { .sa_sigaction = on_error, .sa_flags = SA_SIGINFO | SA_NODEFER };
    if (sigaction(SIGBUS, &action, NULL)) die("sigaction");
    error_at = NULL;
    if (sigsetjmp(after_error, 1) == 0) return *word(map, page);
    return ((uintptr_t)error_at & ~(PAGE - 1)) == (uintptr_t)word(map, page) ? UINT64_MAX : UINT64_MAX - 1;
}

static void *write_on(void *argument)
{
    uint64_t *w = argument;
    for (uint64_t page = w[2] + w[3]; page < maps[w[1]].pages; page++) *word(w[1], page) = 1;
    return NULL;
}

/* Forks. The parent answers 0 and waits to be killed. The child tells of its pages: so many are errors, and 2^32 for
   each that is wrong. */
static void tell_child(const uint64_t *w)
{
    uint64_t answer = 0;
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child > 0) {
        if (send(0, &answer, sizeof answer, 0) < 0) die("answer");
        for (;;) pause();
    }
    for (uint64_t page = w[2]; page < w[2] + w[3]; page++) {
        uint64_t found = touch(w[1], page);
        if (found == UINT64_MAX) answer++;
        else if (found != pattern(w[4], page)) answer += 1ULL << 32;
    }
    if (send(0, &answer, sizeof answer, 0) < 0) die("answer");
    _exit(0);
}

/* Has the agent lose pages while another thread needs frames, then forks. */
static void lose(const uint64_t *w)
{
    pthread_t thread;
    losing = 1;
    if (pthread_create(&thread, NULL, write_on, (void *)w)) die("thread");
    while (!lost) usleep(1000);
    tell_child(w);
}

static void *look_on(void *argument)
{
    uint64_t *w = argument;
    for (uint64_t page = w[2]; page < w[2] + w[3]; page++) if (*word(w[1], page) != pattern(w[4], page)) _exit(3);
    slow = 0;
    return NULL;
}

/* Forks when the agent has dropped a page for another thread, which looks at all, and has not told of it. Whether that
   came about, and how many pages were wrong in the child. */
static uint64_t forked_between(const uint64_t *w)
{
    pthread_t thread;
    dropped = 0;
    slow = 1;
    if (pthread_create(&thread, NULL, look_on, (void *)w)) die("thread");
    while (!dropped && slow) usleep(100);
    uint64_t between = slow;
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        uint64_t bad = 0;
        for (uint64_t page = w[2]; page < w[2] + w[3]; page++) bad += *word(w[1], page) != pattern(w[4], page);
        _exit(bad > 250 ? 250 : bad);
    }
    int status;
    slow = 0;
    if (waitpid(child, &status, 0) != child || pthread_join(thread, NULL)) die("wait");
    return (WIFEXITED(status) ? WEXITSTATUS(status) : 999) << 1 | between;
}

/* Forks a child that ends at once, and looks at the pages: how many were wrong. */
static uint64_t forked_in_vain(const uint64_t *w)
{
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) _exit(0);
    uint64_t bad = 0;
    for (uint64_t page = w[2]; page < w[2] + w[3]; page++) bad += *word(w[1], page) != pattern(w[4], page);
    if (waitpid(child, NULL, 0) != child) die("wait");
    return bad;
}

static uint64_t command(const uint64_t *w, int fd)
{
    switch (w[0]) {
    case 1:
        maps[map_count].pages = w[1];
        maps[map_count].base = mmap(NULL, w[1] * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (maps[map_count].base == MAP_FAILED) die("mmap");
        enroll(shared_fd, maps[map_count].base, w[1] * PAGE, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR);
        close(fd);
        return map_count++;
    case 2: return (uint64_t)maps[w[1]].base;
    case 3: *word(w[1], w[2]) = w[3]; return w[3];
    case 4: return *word(w[1], w[2]);
    case 5: return in_threads(w, 0, 3);
    case 6: return in_threads(w, 1, 3);
    case 7: deaf = 1; return 0;
    case 8: {
        uint64_t *copy = malloc(64);
        pthread_t thread;
        memcpy(copy, w, 64);
        return pthread_create(&thread, NULL, churn, copy);
    }
    case 10:
        maps[map_count].pages = w[1];
        maps[map_count].base = mmap(NULL, w[1] * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (maps[map_count].base == MAP_FAILED) die("mmap");
        madvise(maps[map_count].base, w[1] * PAGE, MADV_NOHUGEPAGE);
        enroll(private_fd, maps[map_count].base, w[1] * PAGE, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
        return map_count++;
    case 11: return madvise((void *)word(w[1], w[2]), w[3] * PAGE, MADV_DONTNEED);
    case 12: return munmap((void *)word(w[1], w[2]), w[3] * PAGE);
    case 13: {
        size_t length = maps[w[1]].pages * PAGE;
        void *to = mmap(NULL, length + (16 << 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        maps[w[1]].base = mremap(maps[w[1]].base, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)to + (5 << 20) / 2);
        return maps[w[1]].base == MAP_FAILED;
    }
    case 14: return forked(w);
    case 15: busy = w[1]; return 0;
    case 16: return touch(w[1], w[2]);
    case 17: lose(w); return 0;
    case 19: losing = w[1]; return 0;
    case 20: tell_child(w); return 0;
    case 21: return in_threads(w, 1, 1);
    case 22: return forked_between(w);
    case 23: return forked_in_vain(w);
    case 18: clumsy = word(w[1], w[2]); return 0;
    default: die("command"); return 0;
    }
}

static ssize_t receive(void *bytes, size_t length, int *fds, int *count)
{
    char control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec part = { bytes, length };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    ssize_t got = recvmsg(0, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *count = 0;
    if (got > 0 && header) {
        *count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(header), *count * sizeof(int));
    }
    return got;
}

static void hello(void)
{
    char control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
    int fds[2] = { private_fd, shared_fd };
    uint32_t thread = agent_thread;
    struct iovec part = { &thread, sizeof thread };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(header), fds, sizeof fds);
    if (sendmsg(0, &message, 0) < 0) die("hello");
}

int main(void)
{
    uint64_t events = UFFD_FEATURE_THREAD_ID | UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP;
    uint64_t words[8];
    int fds[4], count;
    pthread_t thread;
    private_fd = userfault(events | UFFD_FEATURE_EVENT_REMOVE);
    shared_fd = userfault(events | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM | FEATURE_WP_SHMEM);
    mover_fd = userfault(FEATURE_MOVE);
    staging = mmap(NULL, STAGING * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(staging, STAGING * PAGE, MADV_NOHUGEPAGE);
    madvise(staging, STAGING * PAGE, MADV_DONTFORK);
    enroll(mover_fd, staging, STAGING * PAGE, UFFDIO_REGISTER_MODE_WP);
    if (pthread_create(&thread, NULL, agent, NULL)) die("thread");
    while (!agent_thread) usleep(100);
    hello();
    if (receive(words, sizeof words, fds, &count) <= 0 || count != 3) die("welcome");
    transfer_pages = lseek(fds[1], 0, SEEK_END) / PAGE;
    transfer = mmap(NULL, transfer_pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    event_fd = fds[2];
    channel = mmap(NULL, sizeof(struct channel), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (transfer == MAP_FAILED || channel == MAP_FAILED) die("map");
    while (receive(words, sizeof words, fds, &count) > 0) {
        uint64_t answer = command(words, count ? fds[0] : -1);
        if (send(0, &answer, sizeof answer, 0) < 0) die("answer");
    }
    return 0;
}
