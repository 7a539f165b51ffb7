/* Locked memory of one thread is to grow beyond the reservation, again and again, and is refused. Another thread maps
 * memory meanwhile, which the kernel puts where there is room: also where the first was a moment before. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL
enum { PAGES = 32, MORE = 400, TIMES = 1000 };

static volatile int over;
static const char *volatile wrong;

static unsigned char *map(unsigned long pages, int flags)
{
	return mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void fill(volatile unsigned char *memory, unsigned char with)
{
	for (unsigned long page = 0; page < PAGES; page++)
		memory[page * PAGE] = with + page;
}

static int has(volatile unsigned char *memory, unsigned char what)
{
	for (unsigned long page = 0; page < PAGES; page++)
		if (memory[page * PAGE] != (unsigned char)(what + page))
			return 0;
	return 1;
}

static void *map_again_and_again(void *nothing)
{
	for (unsigned char with = 0; !over; with++) {
		unsigned char *memory = map(PAGES, 0);

		if (memory == MAP_FAILED)
			continue;
		fill(memory, with);
		if (!has(memory, with))
			wrong = "mapped memory has other content";
		munmap(memory, PAGES * PAGE);
	}
	return nothing;
}

int main(void)
{
	unsigned char *memory = map(PAGES, MAP_LOCKED), *behind = map(PAGES, 0);
	unsigned refused = 0;
	pthread_t other;

	if (memory == MAP_FAILED || behind == MAP_FAILED || pthread_create(&other, 0, map_again_and_again, 0))
		return 2;
	for (unsigned time = 0; time < TIMES && !wrong; time++) {
		unsigned char *grown;

		fill(memory, time);
		grown = mremap(memory, PAGES * PAGE, MORE * PAGE, MREMAP_MAYMOVE);
		if (grown == MAP_FAILED) {
			refused += errno == ENOMEM;
		} else {
			/* Another thread's memory is where it was. */
			memory = mremap(grown, MORE * PAGE, PAGES * PAGE, 0);
		}
		if (!has(memory, time))
			wrong = "locked memory has other content";
	}
	over = 1;
	pthread_join(other, 0);
	puts(wrong ? wrong : refused ? "refused, and whole" : "never refused");
	return wrong ? 3 : 0;
}
