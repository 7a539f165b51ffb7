/* A periodic program that knows nothing of Freehold: JOBS jobs, one each PERIOD milliseconds, that write to every page
   of MIB mebibytes; every LONG-th job (0: none) computes for two and a half periods. With a fifth argument "unmap" each
   job unmaps some of that memory before it computes; with "map" it computes in eight parts, each in 256 KiB that it maps
   before and unmaps after. Prints its process number and when its first period begins, and wakes up in each of seven
   periods before that, so that whoever looks from then on sees it block; at the end how many wake-ups came more than an
   eighth of a period late, and its jobs' CPU time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long long read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void sleep_until(long long time) {
    struct timespec wake = {time / 1000000000, time % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) != 0)
        ;
}

static void compute(long long until) {
    while (read_clock(CLOCK_THREAD_CPUTIME_ID) < until)
        ;
}

/* Until the thread has run for so long, in memory of its own. */
static void compute_in_new_memory(long long until) {
    size_t length = 1 << 18;
    volatile char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    for (size_t at = 0; at < length; at += 4096)
        memory[at] = 1;
    compute(until);
    munmap((void *)memory, length);
}

int main(int count, char **arguments) {
    if (count != 5 && count != 6)
        return 2;
    long long period = atoll(arguments[1]) * 1000000LL;
    int jobs = atoi(arguments[2]), mebibytes = atoi(arguments[3]), every = atoi(arguments[4]);
    int unmaps = count == 6 && strcmp(arguments[5], "unmap") == 0;
    int maps = count == 6 && strcmp(arguments[5], "map") == 0;
    size_t length = (size_t)mebibytes << 20;
    volatile char *memory = NULL;
    if (length > 0) {
        memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return 1;
        for (size_t at = 0; at < length; at += 4096)
            memory[at] = 1;
    }
    long long next = read_clock(CLOCK_MONOTONIC) + 8 * period;
    printf("%d %lld\n", getpid(), next);
    fflush(stdout);
    /* None in the last period: after a late one there the first job would seem to come in its period. */
    for (int before = 7; before > 1; before--)
        sleep_until(next - before * period);
    int late = 0;
    long long used = 0;
    for (int job = 1; job <= jobs; job++) {
        sleep_until(next);
        late += read_clock(CLOCK_MONOTONIC) > next + period / 8;
        long long begun = read_clock(CLOCK_THREAD_CPUTIME_ID);
        long long work = every > 0 && job % every == 0 ? period * 5 / 2 : 500000;
        for (size_t at = 0; at < length; at += 4096)
            memory[at]++;
        for (int block = 0; block < 4 && unmaps && length > 0; block++) {
            length -= 1 << 16;
            munmap((void *)(memory + length), 1 << 16);
        }
        for (int part = 1; part <= 8 && maps; part++)
            compute_in_new_memory(begun + work * part / 8);
        compute(begun + work);
        used += read_clock(CLOCK_THREAD_CPUTIME_ID) - begun;
        /* A period that has begun is not made up for. */
        do
            next += period;
        while (next <= read_clock(CLOCK_MONOTONIC));
    }
    struct timespec rest = {0, 2 * period % 1000000000};
    nanosleep(&rest, NULL);
    printf("%d %lld\n", late, used);
    return 0;
}
