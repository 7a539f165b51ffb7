// Unmaps memory again and again, and looks after each time whether the rest of it is what it was.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096, KEPT = 200, GONE = 16, ROUNDS = 100 };

static unsigned char *map(int pages) {
    unsigned char *at = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void write_all(unsigned char *at, int pages, int value) {
    for (int page = 0; page < pages; page++) {
        at[(size_t)page * PAGE] = (unsigned char)(page + value);
    }
}

int main(void) {
    unsigned char *kept = map(KEPT);
    if (kept == NULL) {
        return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        write_all(kept, KEPT, round);
        unsigned char *gone = map(GONE);
        if (gone == NULL) {
            return 1;
        }
        write_all(gone, GONE, round);
        munmap(gone, GONE * PAGE);
        for (int page = 0; page < KEPT; page++) {
            if (kept[(size_t)page * PAGE] != (unsigned char)(page + round)) {
                fprintf(stderr, "round %d: page %d is wrong\n", round, page);
                return 2;
            }
        }
    }
    return 0;
}
