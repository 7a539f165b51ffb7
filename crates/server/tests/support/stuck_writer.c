/* Writes to the file that is its standard input from memory that nobody ever brings, and so waits in the middle of it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    int userfault = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {{(unsigned long)memory, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (userfault < 0 || ioctl(userfault, UFFDIO_API, &api) || ioctl(userfault, UFFDIO_REGISTER, &all)) return 2;
    return pwrite(0, memory, 1, 0) == 1 ? 0 : 1;
}
