/* Memory that the kernel moves for nobody, of 16 MiB: `unmovable KIND`. Each page holds its number and how often it
 * was written; other memory is used meanwhile. Prints what it found, which is the same with and without a server. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 4096
#define SIZE ((size_t)PAGES * PAGE)
#define FIRST(page) ((uint64_t)(page) * 2654435761u + 1)

static char *region;
static volatile int churning = 1;

static uint64_t *word(size_t page) { return (uint64_t *)(region + page * PAGE + page % 511 * 8); }

static void protect(int protection) {
    if (mprotect(region, SIZE, protection)) { perror("mprotect"); exit(2); }
}

/* Uses other memory, twice as much. */
static void churn(void) {
    char *other = mmap(0, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (other == MAP_FAILED) { perror("mmap"); exit(2); }
    memset(other, 1, 2 * SIZE);
    munmap(other, 2 * SIZE);
}

static void *churn_on(void *unused) {
    while (churning) churn();
    return unused;
}

static int wrong(uint64_t more) {
    int count = 0;
    for (size_t page = 0; page < PAGES; page++) count += *word(page) != FIRST(page) + more;
    return count;
}

static int report(const char *kind, int count) {
    printf("%s: %d pages wrong\n", kind, count);
    return count != 0;
}

/* Made so and back again, written, and made so again. */
static int protected(const char *kind, int protection) {
    int count = 0;
    protect(protection);
    churn();
    protect(PROT_READ);
    count += wrong(0);
    protect(PROT_READ | PROT_WRITE);
    for (size_t page = 0; page < PAGES; page++) *word(page) += 1;
    protect(protection);
    churn();
    protect(PROT_READ);
    return report(kind, count + wrong(1));
}

static int keyed(const char *kind) {
    int key = syscall(SYS_pkey_alloc, 0, 0);
    if (key < 0) return report(kind, 0);
    if (syscall(SYS_pkey_mprotect, region, SIZE, PROT_READ | PROT_WRITE, key)) { perror("pkey_mprotect"); return 2; }
    churn();
    int count = wrong(0);
    for (size_t page = 0; page < PAGES; page++) *word(page) += 1;
    churn();
    return report(kind, count + wrong(1));
}

static int forked(const char *kind) {
    int ends[2], status = 0;
    char byte;
    protect(PROT_READ);
    if (pipe(ends)) return 2;
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 0) _exit(2);
        _exit(wrong(0) != 0);
    }
    close(ends[0]);
    churn();
    int count = wrong(0);
    close(ends[1]);
    waitpid(child, &status, 0);
    return report(kind, count + (status != 0));
}

/* The program drops pages itself, one at a time, while others are taken away. */
static int dropped(const char *kind) {
    int count = 0;
    protect(PROT_READ);
    churn();
    for (size_t page = 0; page < PAGES; page += 3) madvise(region + page * PAGE, PAGE, MADV_DONTNEED);
    for (size_t page = 0; page < PAGES; page++) count += *word(page) != (page % 3 ? FIRST(page) : 0);
    return report(kind, count);
}

/* It is writable for moments, and written then. */
static int toggled(const char *kind) {
    enum { ROUNDS = 6 };
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t page = 0; page < PAGES; page += 64) {
            mprotect(region + page * PAGE, 64 * PAGE, PROT_READ | PROT_WRITE);
            for (size_t at = page; at < page + 64; at++) *word(at) += 1;
            mprotect(region + page * PAGE, 64 * PAGE, PROT_READ);
        }
    }
    return report(kind, wrong(ROUNDS));
}

/* A part is locked, by a system call that nobody but the kernel sees. */
static int locked(const char *kind) {
    long answer;
    protect(PROT_READ);
    __asm__ volatile("syscall" : "=a"(answer) : "a"(SYS_mlock), "D"(region + SIZE / 2), "S"((size_t)1 << 20)
                     : "rcx", "r11", "memory");
    if (answer) { printf("%s: refused with %ld\n", kind, answer); return 2; }
    churn();
    return report(kind, wrong(0));
}

int main(int count, char **words) {
    const char *kind = count > 1 ? words[1] : "";
    pthread_t thread;
    int meanwhile = !strcmp(kind, "dropped") || !strcmp(kind, "toggled"), bad = 2;
    region = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) return 2;
    for (size_t page = 0; page < PAGES; page++) *word(page) = FIRST(page);
    if (meanwhile && pthread_create(&thread, 0, churn_on, 0)) return 2;
    if (!strcmp(kind, "read-only")) bad = protected(kind, PROT_READ);
    if (!strcmp(kind, "execute-only")) bad = protected(kind, PROT_EXEC);
    if (!strcmp(kind, "inaccessible")) bad = protected(kind, PROT_NONE);
    if (!strcmp(kind, "keyed")) bad = keyed(kind);
    if (!strcmp(kind, "forked")) bad = forked(kind);
    if (!strcmp(kind, "dropped")) bad = dropped(kind);
    if (!strcmp(kind, "toggled")) bad = toggled(kind);
    if (!strcmp(kind, "locked")) bad = locked(kind);
    churning = 0;
    if (meanwhile) pthread_join(thread, 0);
    return bad;
}
