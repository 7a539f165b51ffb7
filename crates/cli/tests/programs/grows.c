/* A file grows by one name and is mapped by another: what fstat has told of is there. Arguments: the name to map by, the
 * name to write by, how often. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 5000, PAGE = 4096 };

static char piece[PIECE];

int main(int count, char **arguments)
{
    int writer, reader, round, rounds;
    if (count != 4) return 2;
    writer = open(arguments[2], O_CREAT | O_TRUNC | O_WRONLY, 0600);
    reader = open(arguments[1], O_RDONLY);
    if (writer < 0 || reader < 0) return perror("open"), 2;
    rounds = atoi(arguments[3]);
    for (round = 0; round < rounds; round++) {
        off_t before = (off_t)round * PIECE, start = before / PAGE * PAGE, end = before + PIECE;
        struct stat status;
        char *mapped;
        memset(piece, round, PIECE);
        if (write(writer, piece, PIECE) != PIECE) return perror("write"), 2;
        if (fstat(reader, &status) != 0 || status.st_size != end) return puts("another size"), 1;
        mapped = mmap(0, end - start, PROT_READ, MAP_SHARED, reader, start);
        if (mapped == MAP_FAILED) return perror("mmap"), 2;
        if (memcmp(mapped + (before - start), piece, PIECE) != 0) return puts("other bytes"), 1;
        munmap(mapped, end - start);
    }
    puts("ok");
    return 0;
}
