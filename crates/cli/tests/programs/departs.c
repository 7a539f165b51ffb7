/* A process makes more memory than it may keep, has a child and ends at once; the child checks what it inherited.
 * departs ROUNDS: for each round a line with how the parent ended and what the child found. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 2048, WORDS = 512 };
enum { EXITS, IS_KILLED, FORKS_BARE, CHANGES, WAYS };

static uint64_t *memory;
static unsigned round_;

static uint64_t expected(unsigned page, unsigned word)
{
    return ((uint64_t)round_ << 40 | (uint64_t)page << 16 | word) * 0x9E3779B97F4A7C15u + 1;
}

/* What is wrong, or 0. */
static const char *check(unsigned first)
{
    for (unsigned page = first; page < PAGES; page++)
        for (unsigned word = 0; word < WORDS; word += 73)
            if (memory[page * WORDS + word] != expected(page, word))
                return memory[page * WORDS + word] ? "wrong bytes" : "wrong zeros";
    return 0;
}

static void say(int to, const char *what)
{
    if (write(to, what, strlen(what)) < 0)
        _exit(9);
}

static void child(int way, int to)
{
    unsigned first = 0;
    if (way == CHANGES) {
        /* Its address space changes before it can have everything. */
        first = PAGES / 4;
        if (munmap(memory, (size_t)first * 4096 / 2))
            _exit(7);
        if (madvise(memory + (size_t)first / 2 * WORDS, (size_t)first * 4096 / 2, MADV_DONTNEED))
            _exit(8);
        if (memory[(size_t)first / 2 * WORDS] != 0) {
            say(to, "wrong: what was dropped is there");
            _exit(1);
        }
        if (syscall(SYS_fork) == 0) {
            const char *wrong = check(first);
            say(to, wrong ? wrong : "right ");
            _exit(0);
        }
    }
    const char *wrong = check(first);
    say(to, wrong ? wrong : "right ");
    _exit(0);
}

static void parent(int way, int to)
{
    memory = mmap(0, (size_t)PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(2);
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned word = 0; word < WORDS; word++)
            memory[page * WORDS + word] = expected(page, word);
    pid_t pid = way == FORKS_BARE || way == CHANGES ? syscall(SYS_fork) : fork();
    if (pid == 0)
        child(way, to);
    if (way == IS_KILLED)
        kill(getpid(), SIGKILL);
    _exit(pid < 0);
}

int main(int count, char **words)
{
    static const char *names[] = {"exits", "is killed", "forks bare", "changes"};
    unsigned rounds = count > 1 ? atoi(words[1]) : 1;
    for (round_ = 0; round_ < rounds; round_++) {
        int way = round_ % WAYS, ends[2];
        char said[256];
        size_t length = 0;
        ssize_t got;
        if (pipe(ends))
            return 3;
        pid_t pid = fork();
        if (pid < 0)
            return 4;
        if (pid == 0) {
            close(ends[0]);
            parent(way, ends[1]);
        }
        close(ends[1]);
        waitpid(pid, 0, 0);
        /* Ends when the last of them has. */
        while (length < sizeof said - 1 && (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
            length += got;
        said[length] = 0;
        close(ends[0]);
        dprintf(1, "%s: %s\n", names[way], length ? said : "nothing");
    }
    return 0;
}
