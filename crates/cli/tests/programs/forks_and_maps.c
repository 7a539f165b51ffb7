/* A child that makes memory, and makes it longer: it finds what it wrote, and what its parent had. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (1UL << 20)

static unsigned char *map(int content) {
    unsigned char *at = mmap(0, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? 0 : memset(at, content, LENGTH);
}

int main(void) {
    int status;
    unsigned char *parents = map(1);
    pid_t child = fork();
    if (child == 0) {
        unsigned char *own = map(2), *longer = own ? mremap(own, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE) : MAP_FAILED;
        _exit(longer == MAP_FAILED || longer[5] != 2 || longer[LENGTH] != 0 || parents[5] != 1);
    }
    return !parents || child < 0 || waitpid(child, &status, 0) != child || status ? 1 : 0;
}
