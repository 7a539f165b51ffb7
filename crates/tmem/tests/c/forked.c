/* A process with a pool forks workers, as servers do: each is another process with the same pool, and has nothing of what
 * its parent has taken. */
#include "freehold_cbuf.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno); \
			_exit(1); \
		} \
	} while (0)

enum { UNITS = 4, WORKERS = 8, ROUNDS = 2000 };

static char *kept;
static cbuf_t name;

/* Takes units in turn with all others, more threads than units: nobody else writes to one meanwhile. */
static void work(int worker)
{
	CHECK(cbuf_free(kept) == -EPERM);
	const char *read = cbuf2buf(name, 8);
	CHECK(read != NULL && strcmp(read, "parent") == 0);
	for (int round = 0; round < ROUNDS; round++) {
		cbuf_t id;
		volatile char *own = cbuf_alloc(64, &id);
		CHECK(own != NULL);
		CHECK(own != kept);
		for (int byte = 0; byte < 64; byte++) own[byte] = (char)(worker + round);
		for (int byte = 0; byte < 64; byte++) CHECK(own[byte] == (char)(worker + round));
		CHECK(cbuf2buf(id, 64) == (const void *)own);
		CHECK(cbuf_free((void *)own) == 0);
	}
}

static void *fork_workers(void *unused)
{
	pid_t workers[WORKERS];
	for (int worker = 0; worker < WORKERS; worker++) {
		workers[worker] = fork();
		CHECK(workers[worker] >= 0);
		if (workers[worker] == 0) {
			work(worker);
			/* Every second ends with a unit that it has: it is whoever's waits for it. */
			if (worker % 2) CHECK(cbuf_alloc(1, NULL) != NULL);
			_exit(0);
		}
	}
	for (int worker = 0; worker < WORKERS; worker++) {
		int status;
		CHECK(waitpid(workers[worker], &status, 0) == workers[worker] && status == 0);
	}
	return unused;
}

int main(void)
{
	CHECK(freehold_cbuf_create(3, UNITS, 4096, 1, 10000000000) >= 0);
	kept = cbuf_alloc(64, &name);
	CHECK(kept != NULL);
	strcpy(kept, "parent");
	fork_workers(NULL);
	/* From another thread than the pool's maker. */
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, fork_workers, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(strcmp(kept, "parent") == 0);
	CHECK(cbuf_free(kept) == 0);
	puts("fine");
	return 0;
}
