/* Counts what it is told, and tells how much that was. */
#include "freehold_component.h"

static int64_t count;

static int64_t note(const struct freehold_self *self, const uint64_t argument[6])
{
	(void)self;
	(void)argument;
	return __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
}

static int64_t told(const struct freehold_self *self, const uint64_t argument[6])
{
	(void)self;
	(void)argument;
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

static const freehold_function functions[] = {note, told};

const struct freehold_component freehold_component = {
	.version = FREEHOLD_COMPONENT_VERSION,
	.count = 2,
	.functions = functions,
};
