/* A component: functions that other components call, each call on a stack of the component's and with the caller's
 * priority. `freehold component run` loads it into a process of its own, or with others into one; the source is the
 * same. Compile it with: cc -shared -fPIC -o NAME.so NAME.c
 */
#ifndef FREEHOLD_COMPONENT_H
#define FREEHOLD_COMPONENT_H

#include "freehold_cbuf.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FREEHOLD_COMPONENT_VERSION 2

/* What the host gives a component. The functions are those of freehold_cbuf.h for this component's buffers. */
struct freehold_self {
	uint32_t version;
	uint32_t component;
	void *(*cbuf_alloc)(const struct freehold_self *self, size_t size, cbuf_t *id);
	int (*cbuf_free)(const struct freehold_self *self, void *buffer);
	const void *(*cbuf2buf)(const struct freehold_self *self, cbuf_t id, size_t size);
	/* Calls a function of the component that stands at this place, from 0 on, among `calls` of the composition. Returns
	 * what the function returns, or -EOWNERDEAD (the component has died), -ETIMEDOUT, -EDEADLK, -EINVAL, -EIO. */
	int64_t (*call)(const struct freehold_self *self, uint32_t target, uint32_t function, const uint64_t argument[6]);
	/* The calling thread begins, or ends, a job of the component's own: of the class that stands at this place, from 0
	 * on, among `classes` of the composition. Waits between the two, of components that are called too, count for it.
	 * Return 0 or -EINVAL. */
	int (*job_begin)(const struct freehold_self *self, uint32_t class_of_job);
	int (*job_end)(const struct freehold_self *self);
};

typedef int64_t (*freehold_function)(const struct freehold_self *self, const uint64_t argument[6]);

/* What a component gives its host, under the name `freehold_component`. `start`, if not null, runs in a thread of its
 * own for as long as it likes. */
struct freehold_component {
	uint32_t version;
	uint32_t count;
	const freehold_function *functions;
	void (*start)(const struct freehold_self *self);
};

extern const struct freehold_component freehold_component;

#ifdef __cplusplus
}
#endif

#endif
