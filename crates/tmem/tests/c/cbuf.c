/* A producer with a pool and a consumer that only reads: names go through a pipe, contents through no copy but the
 * consumer's own. Also each misuse. */
#include "freehold_cbuf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno); \
			return 1; \
		} \
	} while (0)

static int consumer(int pool, int names)
{
	cbuf_t id;
	char copy[32];

	CHECK(freehold_cbuf_read(pool) == 0);
	CHECK(cbuf_alloc(1, NULL) == NULL && errno == ENXIO);
	CHECK(read(names, &id, sizeof(id)) == sizeof(id));
	const char *buffer = cbuf2buf(id, sizeof(copy));
	CHECK(buffer != NULL);
	memcpy(copy, buffer, sizeof(copy));
	CHECK(strcmp(copy, "no byte was copied") == 0);
	CHECK(cbuf2buf(id, sizeof(copy) + 1) == NULL && errno == ENOENT);
	CHECK(cbuf2buf(id + 1, 1) == NULL && errno == ENOENT);
	return 0;
}

int main(void)
{
	int names[2], status;
	cbuf_t id, other;

	CHECK(cbuf_alloc(1, NULL) == NULL && errno == ENXIO);
	CHECK(freehold_cbuf_create(0, 1, 1, 1, 1) == -EINVAL);
	CHECK(pipe(names) == 0);
	/* Forked before there is a pool. */
	int go[2];
	CHECK(pipe(go) == 0);
	pid_t child = fork();
	if (child == 0) {
		char path[64];
		CHECK(read(go[0], path, sizeof(path)) == sizeof(path));
		FILE *pool = fopen(path, "r");
		CHECK(pool != NULL);
		return consumer(fileno(pool), names[0]);
	}
	int pool = freehold_cbuf_create(7, 2, 4096, 1, 1000000);
	CHECK(pool >= 0);
	CHECK(freehold_cbuf_create(8, 0, 4096, 1, 1000000) == -EINVAL);
	CHECK(freehold_cbuf_create(7, 2, 4096, 1, 1000000) == -EEXIST);
	char path[64] = {0};
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), pool);
	CHECK(write(go[1], path, sizeof(path)) == sizeof(path));

	char *buffer = cbuf_alloc(32, &id);
	CHECK(buffer != NULL && id >> 48 == 7);
	strcpy(buffer, "no byte was copied");
	CHECK(write(names[1], &id, sizeof(id)) == sizeof(id));
	CHECK(waitpid(child, &status, 0) == child && status == 0);

	CHECK(cbuf_alloc(4097, &other) == NULL && errno == EINVAL);
	CHECK(cbuf_alloc(1, &other) != NULL && other != id);
	CHECK(cbuf_alloc(1, &other) == NULL && errno == EDQUOT);
	CHECK(cbuf_free(buffer + 1) == -EINVAL);
	CHECK(cbuf_free(buffer) == 0);
	CHECK(cbuf_free(buffer) == -EPERM);
	CHECK(cbuf2buf(id, 1) == NULL && errno == ENOENT);
	puts("fine");
	return 0;
}
