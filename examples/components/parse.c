/* Looks at the path of a request, in a buffer of its own, and asks `mime` for the type of what is there. */
#include "freehold_component.h"

#include <string.h>

enum { MIME }; /* `calls` of the composition */

static int64_t parse(const struct freehold_self *self, const uint64_t argument[6])
{
	const char *asked = self->cbuf2buf(self, argument[0], 256);
	int64_t type = -1;
	cbuf_t id;
	char *own = self->cbuf_alloc(self, 256, &id);

	if (own == NULL)
		return -1;
	if (asked != NULL) {
		memcpy(own, asked, 255);
		own[255] = 0;
		uint64_t ask[6] = {id};
		type = own[0] != '/' ? -1 : self->call(self, MIME, 0, ask);
	}
	self->cbuf_free(self, own);
	return type;
}

static const freehold_function functions[] = {parse};

const struct freehold_component freehold_component = {
	.version = FREEHOLD_COMPONENT_VERSION,
	.count = 1,
	.functions = functions,
};
