/* Forks where its control group allows one process more, or some threads beside: `few_tasks GROUP LIMIT`, the file with
 * the group's limit. LIMIT is how many threads and processes more there may be; 0 is none. The child looks at all that
 * it has inherited, and at memory of its own.
 *
 * With `few_tasks GROUP wait LIMIT` the child says `ready` and stays. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 3 << 20, APART = 1024, LONG = 60 };

static uint32_t *memory;

static void fill(uint32_t *words, uint32_t seed)
{
    for (size_t word = 0; word < WORDS; word += APART)
        words[word] = (uint32_t)word * 7 + seed;
}

static int is_as_written(const uint32_t *words, uint32_t seed)
{
    for (size_t word = 0; word < WORDS; word += APART)
        if (words[word] != (uint32_t)word * 7 + seed)
            return 0;
    return 1;
}

static long number_in(const char *folder, const char *name)
{
    char path[512];
    long number = -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%ld", &number) != 1)
        exit(2);
    fclose(file);
    return number;
}

static void allow(const char *folder, long most)
{
    char path[512];
    snprintf(path, sizeof path, "%s/pids.max", folder);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%ld\n", most) < 1 || fclose(file))
        exit(3);
}

static int child(int waits)
{
    uint32_t *own = malloc(WORDS * sizeof *own);
    if (!own)
        return 10;
    fill(own, 5);
    if (!is_as_written(memory, 1))
        return 11;
    if (!is_as_written(own, 5))
        return 12;
    if (waits) {
        puts("ready");
        fflush(stdout);
        /* Whoever is to end this process has so long. */
        sleep(LONG);
        puts("not ended");
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 4;
    const char *folder = argv[1];
    int waits = !strcmp(argv[2], "wait");
    int more = atoi(argv[argc - 1]);
    memory = malloc(WORDS * sizeof *memory);
    if (!memory)
        return 5;
    fill(memory, 1);
    allow(folder, number_in(folder, "pids.current") + more);
    pid_t forked = fork();
    int refused = errno;
    if (forked == 0)
        return child(waits);
    int status = 0;
    if (forked > 0 && waitpid(forked, &status, 0) != forked)
        return 6;
    allow(folder, 1000);
    if (forked < 0)
        printf("refused: %s\n", strerror(refused));
    else if (status)
        printf("wrong: %x\n", status);
    else
        puts(is_as_written(memory, 1) ? "as it must be" : "wrong");
    return 0;
}
