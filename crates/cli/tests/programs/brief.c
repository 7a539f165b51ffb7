/* Forks children that are killed before they have run, as many as it is told, and says how many it has seen end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long children = argc > 1 ? strtol(argv[1], NULL, 10) : 1000, ended = 0;
    char *memory = malloc(1 << 20);
    memset(memory, 7, 1 << 20);
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
