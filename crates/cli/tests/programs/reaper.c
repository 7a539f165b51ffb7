/* Forks children that end at once, some of them with children of their own, and takes note of their ends. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 40, WORDS = 600 << 10, OWN = 200 << 10, APART = 256 };

static uint32_t *memory;

static int is_as_written(void)
{
    for (uint32_t word = 0; word < WORDS; word += APART)
        if (memory[word] != word * 7)
            return 0;
    return 1;
}

/* Does not wait for its own child where that goes on longer. */
static int child(int round)
{
    uint32_t *own = malloc(OWN * sizeof *own);
    if (!own)
        return 4;
    for (uint32_t word = 0; word < OWN; word++)
        own[word] = word;
    int right = is_as_written();
    if (round % 3 == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(!is_as_written());
        int status = 0;
        if (grandchild > 0 && round % 2)
            right &= waitpid(grandchild, &status, 0) == grandchild && status == 0;
    }
    if (round % 5 == 0)
        execl("/bin/true", "true", (char *)0);
    if (round % 7 == 0)
        kill(getpid(), SIGKILL);
    return !right;
}

int main(void)
{
    memory = malloc(WORDS * sizeof *memory);
    if (!memory)
        return 2;
    for (uint32_t word = 0; word < WORDS; word += APART)
        memory[word] = word * 7;
    /* Who has to end the waiting of this process reads its number. */
    printf("%d\n", getpid());
    fflush(stdout);
    for (int round = 0; round < CHILDREN; round++) {
        pid_t forked = fork();
        if (forked == 0)
            _exit(child(round));
        int status = 1;
        if (forked < 0 || waitpid(round % 4 ? forked : -1, &status, 0) < 0)
            return 3;
        if (WIFEXITED(status) && WEXITSTATUS(status))
            return 5;
    }
    puts("done");
    return 0;
}
