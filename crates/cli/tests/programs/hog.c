/* Touches random pages of its memory as fast as it can, in two threads, and checks that each holds what was written
 * last. hog MIB SEED: prints "ready", then goes on until it is killed. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *memory;
static size_t pages;

static void *touch(void *seed) {
	/* Each thread has every second page for itself. */
	uint64_t state = (uintptr_t)seed * 0x9e3779b97f4a7c15u + 1, half = (uintptr_t)seed & 1;
	uint64_t *written = calloc(pages, sizeof *written);
	if (!written)
		exit(3);
	for (;;) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		size_t page = (state >> 33) % (pages / 2) * 2 + half;
		uint64_t *at = memory + page * 512 + (state >> 20) % 7;
		uint64_t *whole = memory + page * 512 + 8;
		if (*whole != written[page]) {
			printf("WRONG page %zu\n", page);
			_exit(4);
		}
		*at += state;
		*whole = written[page] = state;
	}
	return NULL;
}

int main(int count, char **words) {
	if (count != 3)
		return 2;
	pages = (size_t)atol(words[1]) * 256;
	memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 3;
	puts("ready");
	fflush(stdout);
	uintptr_t seed = (uintptr_t)atol(words[2]) * 2;
	pthread_t other;
	if (pthread_create(&other, NULL, touch, (void *)(seed + 1)))
		return 3;
	touch((void *)seed);
	return 0;
}
