/* A component that holds a buffer: for so many microseconds of work (function 0), or for ever, past the call's end
 * (function 1). Function 2 never ends from its fourth call in a process on, and function 3 calls that of another.
 * Function 4 has a thread of the component's own take and release a buffer from then on. */
#include "freehold_component.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void work(uint64_t microseconds)
{
	struct timespec from, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((uint64_t)((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000) < microseconds);
}

static int64_t hold(const struct freehold_self *self, const uint64_t argument[6])
{
	cbuf_t id;
	char *buffer = self->cbuf_alloc(self, 64, &id);

	if (buffer == NULL)
		return -1;
	buffer[0] = 1;
	work(argument[0]);
	return self->cbuf_free(self, buffer);
}

/* Where its process finds the file that an earlier one has left, it takes and releases a buffer only. */
static int64_t keep(const struct freehold_self *self, const uint64_t argument[6])
{
	const uint64_t no_work[6] = {0};
	cbuf_t id;
	FILE *mark;

	(void)argument;
	if (access("hung", F_OK) == 0)
		return hold(self, no_work);
	if (self->cbuf_alloc(self, 64, &id) == NULL)
		return -1;
	mark = fopen("hung", "w");
	if (mark != NULL)
		fclose(mark);
	return 0;
}

static int64_t stall(const struct freehold_self *self, const uint64_t argument[6])
{
	static int calls;

	(void)self;
	if (++calls < 4)
		return 0;
	for (;;) {
		if (argument[0])
			raise(SIGSTOP);
		else
			pause();
	}
}

static int64_t forward(const struct freehold_self *self, const uint64_t argument[6])
{
	return self->call(self, 0, 2, argument);
}

static void *take_turns(void *self)
{
	const uint64_t no_work[6] = {0};

	for (;;) {
		hold(self, no_work);
		usleep(1000);
	}
	return NULL;
}

static int64_t begin(const struct freehold_self *self, const uint64_t argument[6])
{
	pthread_t thread;

	(void)argument;
	return -pthread_create(&thread, NULL, take_turns, (void *)self);
}

static const freehold_function functions[] = {hold, keep, stall, forward, begin};

const struct freehold_component freehold_component = {
	.version = FREEHOLD_COMPONENT_VERSION,
	.count = 5,
	.functions = functions,
};
