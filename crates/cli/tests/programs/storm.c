/* So many threads that allocate, write, wait for one another, read, free and end, all at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 100000 };
static pthread_barrier_t all;

static void *work(void *number) {
    unsigned char mark = (long)number % 251, *memory = malloc(BYTES);
    long wrong = memory == 0;
    if (memory) memset(memory, mark, BYTES);
    pthread_barrier_wait(&all);
    for (int at = 0; memory && at < BYTES; at++) wrong += memory[at] != mark;
    free(memory);
    return (void *)wrong;
}

int main(int count, char **words) {
    long threads = count > 1 ? atol(words[1]) : 500, begun = 0, wrong = 0;
    pthread_t *all_threads = calloc(threads, sizeof *all_threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all, 0, threads);
    while (begun < threads && !pthread_create(all_threads + begun, &small, work, (void *)begun)) begun++;
    if (begun < threads) return 1;
    for (long thread = 0; thread < threads; thread++) {
        void *found;
        pthread_join(all_threads[thread], &found);
        wrong += (long)found;
    }
    printf("%ld threads, %ld wrong\n", begun, wrong);
    return wrong != 0;
}
