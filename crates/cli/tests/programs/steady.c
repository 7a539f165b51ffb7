/* Touches all of its memory in every job, and checks that each page holds what was written last.
 * steady MIB JOBS PAUSE_US: prints "ready", does the jobs, prints "done", waits for the end of standard input. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t mix(uint64_t x) {
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185u;
	return x ^ (x >> 27);
}

int main(int count, char **words) {
	if (count != 4)
		return 2;
	size_t pages = (size_t)atol(words[1]) * 256;
	long jobs = atol(words[2]);
	uint64_t *memory = malloc(pages * 4096);
	if (!memory)
		return 3;
	for (size_t page = 0; page < pages; page++)
		for (int word = 0; word < 512; word += 73)
			memory[page * 512 + word] = mix(page + word);
	/* What the jobs call is touched before it is said that the rest stays. */
	usleep(1);
	puts("ready");
	fflush(stdout);
	for (long job = 1; job <= jobs; job++) {
		for (size_t page = 0; page < pages; page++)
			for (int word = 0; word < 512; word += 73) {
				uint64_t *at = &memory[page * 512 + word];
				if (*at != mix(page + word + 1000 * (uint64_t)(job - 1))) {
					printf("WRONG page %zu word %d job %ld\n", page, word, job);
					return 4;
				}
				*at = mix(page + word + 1000 * (uint64_t)job);
			}
		usleep((useconds_t)atol(words[3]));
	}
	puts("done");
	fflush(stdout);
	char rest;
	while (read(0, &rest, 1) > 0)
		;
	return 0;
}
