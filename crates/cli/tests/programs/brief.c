/* Forks children, as many as it is told, and says how many it has seen end as they should: killed before they have run,
   one after the other; or, with a second argument, all there at the same time, each with memory of its own. With the
   word `unseen` it forks without the C library. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t unseen(void)
{
    long made = 57; /* fork */
    __asm__ volatile("syscall" : "+a"(made) : : "rcx", "r11", "memory");
    return (pid_t)made;
}

/* Children that live until the parent lets go of the pipe; how many then found their memory as it was. */
static long together(long children, pid_t (*make)(void))
{
    int gate[2];
    long ended = 0;
    if (pipe(gate))
        return -1;
    for (long count = 0; count < children; count++) {
        pid_t child = make();
        if (child < 0) {
            perror("fork");
            break;
        }
        if (child == 0) {
            char byte, *own = malloc(1 << 16);
            memset(own, (int)count, 1 << 16);
            close(gate[1]);
            if (read(gate[0], &byte, 1) != 0)
                _exit(2);
            _exit(own[54321] == (char)count ? 0 : 3);
        }
    }
    close(gate[1]);
    for (int status; wait(&status) > 0;)
        ended += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return ended;
}

int main(int argc, char **argv)
{
    long children = argc > 1 ? strtol(argv[1], NULL, 10) : 1000, ended = 0;
    char *memory = malloc(1 << 20);
    memset(memory, 7, 1 << 20);
    if (argc > 2) {
        printf("%ld %d\n", together(children, strcmp(argv[2], "unseen") ? fork : unseen), memory[12345]);
        return 0;
    }
    for (long count = 0; count < children; count++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (child == 0) {
            pause();
            _exit(2);
        }
        int status;
        kill(child, SIGKILL);
        if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
            ended++;
    }
    printf("%ld %d\n", ended, memory[12345]);
    return 0;
}
