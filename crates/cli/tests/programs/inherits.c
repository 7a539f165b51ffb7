/* Makes more memory than it may keep, and children that inherit it: one after another, each of which reads all of it
 * again and again. Whoever finds a wrong byte says so, as does a child that nobody has ended after a minute. Never ends
 * by itself. `inherits MILLISECONDS`: between two of them. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 4096, WORDS = 512, CHILDREN = 3 };

static uint64_t *memory;

static uint64_t expected(unsigned page, unsigned word)
{
    return ((uint64_t)page << 16 | word) * 0x9E3779B97F4A7C15u + 1;
}

static void check(const char *who)
{
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned word = 0; word < WORDS; word += 73)
            if (memory[page * WORDS + word] != expected(page, word)) {
                dprintf(1, "wrong: %s, page %u, word %u\n", who, page, word);
                _exit(1);
            }
}

static void left_behind(int signal)
{
    (void)signal;
    dprintf(1, "wrong: a child goes on for ever\n");
    _exit(1);
}

int main(int argc, char **argv)
{
    useconds_t pause = (argc > 1 ? (unsigned)atoi(argv[1]) : 20) * 1000;
    pid_t children[CHILDREN] = {0};
    memory = malloc((size_t)PAGES * 4096);
    if (!memory)
        return 2;
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned word = 0; word < WORDS; word++)
            memory[page * WORDS + word] = expected(page, word);
    check("parent");
    for (unsigned turn = 0;; turn++) {
        pid_t *child = &children[turn % CHILDREN];
        if (*child) {
            kill(*child, SIGKILL);
            waitpid(*child, NULL, 0);
        }
        *child = fork();
        if (*child < 0)
            return 3;
        if (*child == 0) {
            signal(SIGALRM, left_behind);
            alarm(60);
            for (;;)
                check("child");
        }
        dprintf(1, "child %u\n", turn);
        usleep(pause);
    }
}
