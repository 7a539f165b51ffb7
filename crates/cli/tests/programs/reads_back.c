/* Fills more memory than its reservation has, says so, waits for a line, and reads all of it: `reads_back PAGES`. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096UL

int main(int count, char **words)
{
	unsigned long pages = count > 1 ? strtoul(words[1], 0, 10) : 1, sum = 0;
	volatile unsigned long *memory = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return 2;
	for (unsigned long page = 0; page < pages; page++)
		memory[page * PAGE / sizeof *memory] = page + 1;
	puts("full");
	fflush(stdout);
	if (getchar() == EOF)
		return 3;
	for (unsigned long page = 0; page < pages; page++)
		sum += memory[page * PAGE / sizeof *memory];
	return sum == pages * (pages + 1) / 2 ? 0 : 4;
}
