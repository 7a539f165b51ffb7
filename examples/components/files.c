/* A file system in memory with one file. A buffer belongs to the thread that took it, so `contexts` is to be 1: the
 * thread that served `get` also serves `done`. */
#include "freehold_component.h"

#include <string.h>

static const char content[] = "served by components\n";

/* The name of a buffer with the path; the name of a buffer with length and content, or 0 where there is no such file. */
static int64_t get(const struct freehold_self *self, const uint64_t argument[6])
{
	char path[16] = {0};
	const char *asked = self->cbuf2buf(self, argument[0], sizeof(path));
	if (asked == NULL)
		return -1;
	memcpy(path, asked, sizeof(path) - 1);
	if (strcmp(path, "/") != 0)
		return 0;
	cbuf_t id;
	uint32_t length = sizeof(content) - 1;
	char *buffer = self->cbuf_alloc(self, sizeof(length) + length, &id);
	if (buffer == NULL)
		return -2;
	memcpy(buffer, &length, sizeof(length));
	memcpy(buffer + sizeof(length), content, length);
	return (int64_t)id;
}

static int64_t done(const struct freehold_self *self, const uint64_t argument[6])
{
	const void *buffer = self->cbuf2buf(self, argument[0], 1);
	return buffer == NULL ? -1 : self->cbuf_free(self, (void *)buffer);
}

static const freehold_function functions[] = {get, done};

const struct freehold_component freehold_component = {
	.version = FREEHOLD_COMPONENT_VERSION,
	.count = 2,
	.functions = functions,
};
