/* Maps a large file as a program's text is, reads some of it, and lets it go, as many times as is said. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT (256UL << 20)
#define STEP (4UL << 20)

int main(int count, char **words) {
    int sum = 0;
    for (int times = count > 1 ? atoi(words[1]) : 1; times; times--) {
        char name[] = "/tmp/freehold-large-text-XXXXXX";
        int file = mkstemp(name);
        if (file < 0 || unlink(name) || ftruncate(file, TEXT)) return perror(name), 2;
        char *text = mmap(0, TEXT, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        if (text == MAP_FAILED) return perror("mmap"), 2;
        for (size_t at = 0; at < TEXT; at += STEP) sum += text[at];
        munmap(text, TEXT);
        close(file);
    }
    return sum ? 1 : 0;
}
