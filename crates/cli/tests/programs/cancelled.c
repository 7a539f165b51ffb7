/* Threads that are cancelled in a call, at once or where it may be, that a signal handler ends there, or that it jumps
 * out of it: each has to end, with what it ends with. Afterwards memory is as it was written. Prints how many of each kind have ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 1 << 16, ROUNDS = 20, SIZE = 24 << 20 };

static char fifo[64];
static void *const ended = &fifo;
static volatile int begun;
static __thread sigjmp_buf back;

static void *piece(void) {
    return mmap(0, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void waits_in_open(void) { open(fifo, O_RDONLY); }
static void waits_in_openat(void) { openat(AT_FDCWD, fifo, O_RDONLY); }
static void waits_in_fopen(void) { fopen(fifo, "r"); }
static void waits_by_number(void) { syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0); }
static void opens_by_number(void) { syscall(SYS_openat, AT_FDCWD, fifo, O_RDONLY); }
static void asks(void) { for (;;) syscall(SYS_getppid); }
static void controls(void) { for (int left; ; ) ioctl(0, FIONREAD, &left); }
static void looks(void) { for (struct stat found; ; ) stat("/", &found); }
static void maps(void) { for (;;) munmap(piece(), PIECE); }
static void maps_in_place(void) {
    char *made = piece();
    for (;;) mmap(made, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
static void protects(void) {
    for (char *made = piece(); ; mprotect(made, PAGE, PROT_READ | PROT_WRITE)) mprotect(made, PAGE, PROT_READ);
}
static void advises(void) { for (char *made = piece(); ; ) madvise(made, PAGE, MADV_DONTNEED); }
static void moves(void) {
    char *made = piece();
    for (;;) {
        made = mremap(made, PIECE, 2 * PIECE, MREMAP_MAYMOVE);
        made = mremap(made, 2 * PIECE, PIECE, MREMAP_MAYMOVE);
    }
}

enum { POINT = 1, AT_ONCE = 2, HANDLER = 4, JUMP = 8, BY_SIGNAL = HANDLER | JUMP };

static const struct { const char *name; void (*work)(void); int ways; } KINDS[] = {
    { "open", waits_in_open, POINT | AT_ONCE | BY_SIGNAL },
    { "openat", waits_in_openat, POINT | AT_ONCE | BY_SIGNAL },
    { "fopen", waits_in_fopen, BY_SIGNAL },
    { "a wait by number", waits_by_number, AT_ONCE | BY_SIGNAL },
    { "an open by number", opens_by_number, AT_ONCE | BY_SIGNAL },
    { "calls by number", asks, AT_ONCE | BY_SIGNAL },
    { "ioctl", controls, AT_ONCE | BY_SIGNAL },
    { "stat", looks, BY_SIGNAL },
    { "mmap", maps, BY_SIGNAL },
    { "mmap in place", maps_in_place, BY_SIGNAL },
    { "mprotect", protects, BY_SIGNAL },
    { "madvise", advises, BY_SIGNAL },
    { "mremap", moves, BY_SIGNAL },
};

struct thread { void (*work)(void); int way; };

static void end(int signal) {
    if (signal == SIGUSR2) siglongjmp(back, 1);
    pthread_exit(ended);
}

static void *run(void *argument) {
    struct thread *thread = argument;
    if (thread->way == AT_ONCE) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    if (sigsetjmp(back, 1)) return ended;
    begun = 1;
    thread->work();
    return NULL;
}

/* How many have ended as they were told to. */
static int ends(void (*work)(void), int way) {
    int count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct thread thread = { work, way };
        pthread_t number;
        void *with;
        begun = 0;
        pthread_create(&number, NULL, run, &thread);
        while (!begun) usleep(10);
        usleep(200 + rand() % 2000);
        int by_signal = way & BY_SIGNAL;
        by_signal ? pthread_kill(number, way == JUMP ? SIGUSR2 : SIGUSR1) : pthread_cancel(number);
        pthread_join(number, &with);
        count += with == (by_signal ? ended : PTHREAD_CANCELED);
    }
    return count;
}

static size_t wrong(void) {
    size_t count = 0;
    /* The heap grows by the break. */
    for (int at = 0; at < 4096; at++) count += !malloc(1000);
    int *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < SIZE / PAGE; page++) memory[page * (PAGE / 4)] = page ^ 77;
    for (int page = 0; page < SIZE / PAGE; page++) count += memory[page * (PAGE / 4)] != (page ^ 77);
    munmap(memory, SIZE);
    return count;
}

int main(void) {
    struct sigaction action = { .sa_handler = end };
    snprintf(fifo, sizeof fifo, "/tmp/freehold-cancelled-%d", getpid());
    if (mkfifo(fifo, 0600) || sigaction(SIGUSR1, &action, NULL)) return 2;
    if (sigaction(SIGUSR2, &action, NULL)) return 2;
    for (size_t at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        for (int way = POINT; way <= JUMP; way *= 2)
            if (KINDS[at].ways & way) printf("%s, %d: %d\n", KINDS[at].name, way, ends(KINDS[at].work, way));
    printf("%zu pages wrong\n", wrong());
    unlink(fifo);
    return 0;
}
