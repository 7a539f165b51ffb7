/* Uses little of much: a page in each 64 MiB of 256 GiB, and thousands of mappings of 64 KiB to 1 MiB of which it
 * touches the ends; drops and unmaps some, and goes on. Prints how many pages did not hold what they should. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, MAPPINGS = 10000 };

static char *lengths[MAPPINGS];
static size_t sizes[MAPPINGS];

static char *map(size_t length)
{
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) { perror("mmap"); exit(2); }
    return at;
}

static int scattered(void)
{
    const size_t all = (size_t)256 << 30, step = (size_t)64 << 20;
    int wrong = 0;
    char *space = map(all);
    for (size_t at = 0; at < all; at += step) space[at + at / step % 16 * PAGE] = 1 + at / step % 100;
    madvise(space + all / 4, all / 4, MADV_DONTNEED);
    for (size_t at = 0; at < all; at += step) {
        char found = space[at + at / step % 16 * PAGE], wanted = 1 + at / step % 100;
        int dropped = at >= all / 4 && at < all / 2;
        wrong += found != (dropped ? 0 : wanted);
    }
    munmap(space, all);
    return wrong;
}

static int many(void)
{
    int wrong = 0;
    for (int i = 0; i < MAPPINGS; i++) {
        /* What lies between keeps the kernel from making one mapping of two. */
        sizes[i] = ((size_t)64 << 10) * (1 + i % 16);
        char *both = map(sizes[i] + PAGE);
        mprotect(both + sizes[i], PAGE, PROT_NONE);
        lengths[i] = both;
        both[0] = 1 + i % 100;
        both[sizes[i] - 1] = 2 + i % 100;
    }
    for (int i = 0; i < MAPPINGS; i += 3) munmap(lengths[i], sizes[i]);
    for (int i = 1; i < MAPPINGS; i += 3) madvise(lengths[i], sizes[i], MADV_DONTNEED);
    for (int i = 1; i < MAPPINGS; i += 3) wrong += lengths[i][0] != 0 || lengths[i][sizes[i] - 1] != 0;
    for (int i = 2; i < MAPPINGS; i += 3)
        wrong += lengths[i][0] != 1 + i % 100 || lengths[i][sizes[i] - 1] != 2 + i % 100;
    return wrong;
}

int main(void)
{
    int first = scattered(), second = many();
    printf("%d and %d wrong\n", first, second);
    return first + second != 0;
}
