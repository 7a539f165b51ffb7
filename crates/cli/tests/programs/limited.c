/* Goes through memory and a file of its own in turns, and forks children that look at all of the memory: `limited MIB`.
 * Says whether everything was as it must be. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, APART = 1024, BETWEEN = 64, BLOCK = 1 << 20, FILE_BLOCKS = 64 };

static int is_as_written(const uint32_t *memory, size_t words, uint32_t round)
{
    for (size_t word = 0; word < words; word += APART)
        if (memory[word] != word * 7 + round)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    size_t words = (size_t)(argc > 1 ? atoi(argv[1]) : 8) << 18;
    uint32_t *memory = malloc(words * sizeof *memory);
    char *block = calloc(1, BLOCK);
    FILE *file = tmpfile();
    if (!memory || !block || !file)
        return 2;
    unsigned written = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (round > 0 && !is_as_written(memory, words, round - 1)) {
            puts("wrong");
            return 1;
        }
        for (size_t word = 0; word < words; word += APART) {
            memory[word] = word * 7 + round;
            if (word / APART % BETWEEN == 0)
                if (pwrite(fileno(file), block, BLOCK, (off_t)(written++ % FILE_BLOCKS) * BLOCK) != BLOCK)
                    return 3;
        }
        pid_t child = fork();
        if (child == 0)
            _exit(is_as_written(memory, words, round) ? 0 : 9);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 4;
        /* The kernel may end the child, for want of memory. */
        if (status != 0 && !WIFSIGNALED(status)) {
            puts("wrong: a child");
            return 1;
        }
    }
    puts("as it must be");
    return 0;
}
