/* Has so many children, sixteen at a time, each of which looks at what it has inherited and writes to it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 64, WORDS = 512, AT_ONCE = 16 };

static uint64_t *memory;

static int child(unsigned number)
{
    for (unsigned page = 0; page < PAGES; page++)
        if (memory[page * WORDS] != page + 1)
            return 1;
    for (unsigned page = 0; page < PAGES; page += 8)
        memory[page * WORDS] = number;
    for (unsigned page = 0; page < PAGES; page++)
        if (memory[page * WORDS] != (page % 8 ? page + 1 : number))
            return 2;
    return 0;
}

int main(int count, char **arguments)
{
    unsigned children = count > 1 ? (unsigned)atoi(arguments[1]) : 100;
    memory = malloc((size_t)PAGES * WORDS * 8);
    if (!memory)
        return 3;
    for (unsigned page = 0; page < PAGES; page++)
        memory[page * WORDS] = page + 1;
    for (unsigned made = 0, ended = 0; ended < children;) {
        int status = 0;
        if (made < children && made - ended < AT_ONCE) {
            pid_t pid = fork();
            if (pid < 0)
                return 4;
            if (pid == 0)
                _exit(child(1000 + made));
            made++;
            continue;
        }
        if (wait(&status) < 0)
            return 5;
        if (status) {
            dprintf(2, "a child ended with %d\n", status);
            return 6;
        }
        ended++;
    }
    puts("ok");
    return 0;
}
