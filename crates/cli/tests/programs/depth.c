/* How many bytes of its caller's stack each call uses that makes memory or a process: a line for each, "NAME BYTES". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 128 << 10, FILL = 0xA5 };
static char *stack;
static ucontext_t home, there;
static void (*volatile step)(void);
static char *volatile top;
static int ends[2];
static char *block, *place;

static void enter(void) {
    top = __builtin_frame_address(0);
    step();
}

static long deepest(void) {
    const char *at = stack;
    while (at < top && (unsigned char)*at == FILL) at++;
    return top - at;
}

static void measure(const char *name, void (*what)(void)) {
    what = what;
    memset(stack, FILL, STACK);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &home;
    step = what;
    makecontext(&there, enter, 0);
    swapcontext(&home, &there);
    printf("%s %ld\n", name, deepest());
}

static void *made(size_t size) {
    void *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

static void maps_a_page(void) { made(4096); }
static void maps_much(void) { block = made(8 << 20); }
static void maps_over(void) {
    mmap(block, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
static void moves(void) { place = mremap(block, 1 << 20, 2 << 20, MREMAP_MAYMOVE); }
static void moves_over(void) { mremap(place, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_FIXED, block); }
static void unmaps(void) { munmap(block, 1 << 20); }
static void grows(void) { if (sbrk(2 << 20) == (void *)-1) abort(); }
static void shrinks(void) { if (sbrk(-(1 << 20)) == (void *)-1) abort(); }
static void advises(void) { madvise(block + (4 << 20), 1 << 20, MADV_DONTNEED); }
static void locks(void) { mlock(block + (4 << 20), 4096); }
static void unlocks(void) { munlock(block + (4 << 20), 4096); }
static void loads(void) { dlopen("libresolv.so.2", RTLD_NOW); }
static void cannot_run(void) {
    char *none[] = {"none", 0};
    execve("/nonexistent", none, none);
}
/* The child tells how deep it went itself. */
static void tell(void) {
    long depth = deepest();
    if (write(ends[1], &depth, sizeof depth) != sizeof depth) _exit(1);
    _exit(0);
}
static void forks(void) {
    pid_t child = fork();
    if (!child) tell();
    if (child < 0 || waitpid(child, 0, 0) != child) abort();
}
static void forks_by_number(void) {
    long child = syscall(SYS_fork);
    if (!child) tell();
    if (child < 0 || waitpid(child, 0, 0) != child) abort();
}
static void child_said(const char *name) {
    long depth = -1;
    if (read(ends[0], &depth, sizeof depth) != sizeof depth) abort();
    printf("%s %ld\n", name, depth);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    stack = made(STACK);
    if (pipe(ends)) abort();
    for (int i = 0; i < 3; i++) measure("mmap, a page", maps_a_page);
    measure("mmap, much", maps_much);
    measure("mmap, at a place", maps_over);
    measure("mremap", moves);
    measure("mremap, to a place", moves_over);
    measure("munmap", unmaps);
    for (int i = 0; i < 3; i++) measure("brk, up", grows);
    measure("brk, down", shrinks);
    measure("madvise", advises);
    measure("mlock", locks);
    measure("munlock", unlocks);
    measure("dlopen", loads);
    measure("execve", cannot_run);
    for (int i = 0; i < 2; i++) {
        measure("fork", forks);
        child_said("fork, in the child");
    }
    measure("fork by number", forks_by_number);
    child_said("fork by number, in the child");
    return 0;
}
