/* Tells the type of a file by the end of its path: 1 for HTML, else 0. */
#include "freehold_component.h"

#include <string.h>

static int64_t type_of(const struct freehold_self *self, const uint64_t argument[6])
{
	const char *path = self->cbuf2buf(self, argument[0], 256);
	char copy[256];
	size_t length;

	if (path == NULL)
		return -1;
	memcpy(copy, path, sizeof(copy) - 1);
	copy[sizeof(copy) - 1] = 0;
	length = strlen(copy);
	return length >= 5 && strcmp(copy + length - 5, ".html") == 0;
}

static const freehold_function functions[] = {type_of};

const struct freehold_component freehold_component = {
	.version = FREEHOLD_COMPONENT_VERSION,
	.count = 1,
	.functions = functions,
};
