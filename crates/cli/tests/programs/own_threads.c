/* How many threads a program is told that it has, as Python asks before it forks: one, two, and one in a child. The whole
 * line is read, then once more, which begins with the process's number again. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t ready, end;

static void *wait_for_end(void *unused) {
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&end);
    return unused;
}

static long threads(void) {
    FILE *stat = fopen("/proc/self/stat", "r");
    char line[1024] = "", again[1024] = "";
    long number = 0;
    int first = 0, second = 0;
    if (!stat || !fgets(line, sizeof line, stat) || line[strlen(line) - 1] != '\n' || fgetc(stat) != EOF)
        return -1;
    rewind(stat);
    if (!fgets(again, sizeof again, stat) || fclose(stat))
        return -2;
    sscanf(line, "%d", &first);
    sscanf(again, "%d", &second);
    if (first != getpid() || second != getpid())
        return -3;
    char *past = strrchr(line, ')');
    long long bytes = 0;
    if (!past || sscanf(past, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %*u %lld",
                        &number, &bytes) != 2 || bytes < 4096)
        return -4;
    return number;
}

int main(void) {
    pthread_t thread;
    prctl(PR_SET_NAME, "a) b (c");
    printf("%ld\n", threads());
    pthread_barrier_init(&ready, 0, 2);
    pthread_barrier_init(&end, 0, 2);
    if (pthread_create(&thread, 0, wait_for_end, 0))
        return 1;
    pthread_barrier_wait(&ready);
    printf("%ld\n", threads());
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        printf("%ld\n", threads());
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(child, 0, 0) != child)
        return 2;
    pthread_barrier_wait(&end);
    pthread_join(thread, 0);
    /* A joined thread may be counted for a moment. */
    for (int tries = 0; tries < 1000 && threads() != 1; tries++)
        usleep(1000);
    printf("%ld\n", threads());
    return 0;
}
