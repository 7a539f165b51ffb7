/* Threads that are cancelled in a call, at once or where it may be, or that a signal handler ends there: each has to
 * end, with what it ends with. Afterwards memory is as it was written. Prints how many of each kind have ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
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

enum { POINT = 1, AT_ONCE = 2, HANDLER = 4 };

static const struct { const char *name; void (*work)(void); int ways; } KINDS[] = {
    { "open", waits_in_open, POINT | AT_ONCE | HANDLER },
    { "openat", waits_in_openat, POINT | AT_ONCE | HANDLER },
    { "fopen", waits_in_fopen, HANDLER },
    { "a wait by number", waits_by_number, AT_ONCE | HANDLER },
    { "an open by number", opens_by_number, AT_ONCE | HANDLER },
    { "calls by number", asks, AT_ONCE | HANDLER },
    { "ioctl", controls, AT_ONCE | HANDLER },
    { "stat", looks, HANDLER },
    { "mmap", maps, HANDLER },
    { "mprotect", protects, HANDLER },
    { "madvise", advises, HANDLER },
    { "mremap", moves, HANDLER },
};

struct thread { void (*work)(void); int way; };

static void end(int signal) {
    (void)signal;
    pthread_exit(ended);
}

static void *run(void *argument) {
    struct thread *thread = argument;
    if (thread->way == AT_ONCE) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
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
        way == HANDLER ? pthread_kill(number, SIGUSR1) : pthread_cancel(number);
        pthread_join(number, &with);
        count += with == (way == HANDLER ? ended : PTHREAD_CANCELED);
    }
    return count;
}

static size_t wrong(void) {
    size_t count = 0;
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
    for (size_t at = 0; at < sizeof KINDS / sizeof *KINDS; at++)
        for (int way = POINT; way <= HANDLER; way *= 2)
            if (KINDS[at].ways & way) printf("%s, %d: %d\n", KINDS[at].name, way, ends(KINDS[at].work, way));
    printf("%zu pages wrong\n", wrong());
    unlink(fifo);
    return 0;
}
