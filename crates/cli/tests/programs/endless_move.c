/* Locked memory that moves and grows, past the C library: the kernel brings in what is added before it tells the memory
 * server of the move, and until it has told lets nobody bring in anything. So this call never ends. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { SIZE = 64 * 4096 };

int main(void) {
    char *region = mmap(0, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) return 2;
    memset(region, 7, SIZE);
    /* No room behind it. */
    if (mlock(region, SIZE) || mprotect(region + SIZE, SIZE, PROT_NONE)) return 3;
    puts("moves");
    fflush(stdout);
    long answer;
    register long flags __asm__("r10") = MREMAP_MAYMOVE;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(SYS_mremap), "D"(region), "S"(SIZE), "d"(2 * SIZE), "r"(flags)
                     : "rcx", "r11", "memory");
    return answer < 0;
}
