/* Components with faults. A thread of the component with this number writes anything anywhere into the memory that it
 * shares with others, and takes, releases and calls beside that, where and as long as there is a file `faulty`. */
#define _GNU_SOURCE
#include "freehold_component.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULTY = 2, WORDS = 512, AREAS = 64 };

static struct {
	char *start;
	size_t length;
} areas[AREAS];
static size_t area_count;

static void find_areas(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL && area_count < AREAS) {
		unsigned long start, end;
		char access[5];

		if (sscanf(line, "%lx-%lx %4s", &start, &end, access) != 3)
			continue;
		if (access[1] != 'w' || access[3] != 's')
			continue;
		areas[area_count].start = (char *)start;
		areas[area_count++].length = end - start;
	}
	if (maps != NULL)
		fclose(maps);
}

static uint32_t any_word(unsigned *seed)
{
	uint32_t word = rand_r(seed);

	switch (rand_r(seed) % 6) {
	case 0:
		return 0;
	case 1:
		return 1; /* a thread that lives, and is nobody's here */
	case 2:
		return gettid();
	case 3:
		return word % 32768;
	case 4:
		return 0x3fffffff | (word & 0xc0000000); /* withdrawn */
	default:
		return word;
	}
}

static void scribble(unsigned *seed)
{
	for (int times = 0; times < 200; times++) {
		size_t at = rand_r(seed) % area_count;
		/* Half of it where the words of units and calls are. */
		size_t bytes = rand_r(seed) % 2 || areas[at].length < 8192 ? areas[at].length : 8192;
		volatile uint32_t *words = (uint32_t *)areas[at].start;

		words[rand_r(seed) % (bytes / 4)] = any_word(seed);
	}
}

static void start(const struct freehold_self *self)
{
	unsigned seed = getpid();

	if (self->component != FAULTY || access("faulty", F_OK) != 0)
		return;
	find_areas();
	while (access("faulty", F_OK) == 0) {
		uint64_t any[6] = {rand_r(&seed), rand_r(&seed)};
		cbuf_t name;
		char *buffer;

		scribble(&seed);
		/* To look at what is not there, or what no component has. */
		self->call(self, 0, rand_r(&seed) % 2 ? 1 : rand_r(&seed) | 5, any);
		buffer = self->cbuf_alloc(self, rand_r(&seed) % 8000, &name);
		self->cbuf_free(self, buffer);
		self->cbuf_free(self, buffer + 1);
		self->cbuf2buf(self, ((cbuf_t)rand_r(&seed) << 32) | rand_r(&seed), 16);
		usleep(500);
	}
}

/* 0, with calls: has the first of them look at what it passes on. */
static int64_t passes(const struct freehold_self *self, const uint64_t argument[6])
{
	static uint64_t number;
	uint64_t ask[6] = {0, ++number};
	cbuf_t name;
	uint64_t *words = self->cbuf_alloc(self, WORDS * sizeof(*words), &name);
	int64_t result;

	(void)argument;
	if (words == NULL) {
		perror("passes: cbuf_alloc");
		return -1;
	}
	for (int at = 0; at < WORDS; at++)
		words[at] = number * at;
	ask[0] = name;
	result = self->call(self, 0, 1, ask);
	self->cbuf_free(self, words);
	if (result == (int64_t)number)
		return 0;
	fprintf(stderr, "passes: %lld for %llu\n", (long long)result, (unsigned long long)number);
	return -1;
}

/* 1: looks at it. */
static int64_t looks(const struct freehold_self *self, const uint64_t argument[6])
{
	const uint64_t *words = self->cbuf2buf(self, argument[0], WORDS * sizeof(*words));

	for (int at = 0; words != NULL && at < WORDS; at++)
		if (words[at] != argument[1] * at)
			return -1;
	return words == NULL ? -1 : (int64_t)argument[1];
}

/* 2: asks its second callee for nothing, and says in the file `asked` what came of it. */
static int64_t asks(const struct freehold_self *self, const uint64_t argument[6])
{
	int64_t result = self->call(self, 1, 3, argument);
	int file = open("asked", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	dprintf(file, "%lld\n", (long long)result);
	close(file);
	return result;
}

/* 3 */
static int64_t nothing(const struct freehold_self *self, const uint64_t argument[6])
{
	(void)self;
	(void)argument;
	return 0;
}

/* 4 */
static int64_t stops(const struct freehold_self *self, const uint64_t argument[6])
{
	(void)self;
	(void)argument;
	raise(SIGSTOP);
	return 0;
}

static const freehold_function functions[] = {passes, looks, asks, nothing, stops};

const struct freehold_component freehold_component = {
	.version = FREEHOLD_COMPONENT_VERSION,
	.count = 5,
	.functions = functions,
	.start = start,
};
