/* Buffers from a bounded pool, whose exhaustion is a bounded wait that lends its priority.
 *
 * A process makes a pool, or joins one that another process has made. Threads take and release buffers; other
 * processes that have the pool's descriptor read them by their name. A buffer's content is as good as its user's word:
 * copy what you read of another's, and check it. The child of a fork() is one more process with its parent's pools. It
 * has none of the buffers that its parent has taken. (Children made by clone() or _Fork() are not.)
 *
 * | call         | real-time safe | system calls                                            |
 * |--------------|----------------|---------------------------------------------------------|
 * | cbuf_alloc   | yes            | none; waiting for a unit: 1 (FUTEX_LOCK_PI2), bounded   |
 * | cbuf_free    | yes            | none; where somebody waits: 1 (FUTEX_UNLOCK_PI)         |
 * | cbuf2buf     | yes            | none                                                    |
 * | freehold_... | no             | as many as it takes                                     |
 */
#ifndef FREEHOLD_CBUF_H
#define FREEHOLD_CBUF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names one use of a buffer: component, unit, sequence number. Never 0. */
typedef uint64_t cbuf_t;

/* Makes the pool of this process, as component 1 to 255: so many units of at least so many bytes. A thread that has
 * `minimum` of them does not wait for another. A request waits at most bound_ns. Returns the pool's descriptor, which
 * stays open; or -EINVAL, -EEXIST, -ENOMEM, ... */
int freehold_cbuf_create(uint16_t component, size_t units, size_t unit_size, size_t minimum, uint64_t bound_ns);

/* Takes part in a pool that another process has made. Returns 0 or a negative error. The descriptor stays the caller's. */
int freehold_cbuf_join(int fd);

/* Reads buffers of a pool that another process has made. Returns 0 or a negative error. */
int freehold_cbuf_read(int fd);

/* Takes a buffer and names it. NULL with errno: EINVAL (0 or more than a unit has), ETIMEDOUT (every unit stayed in use
 * until the bound), EDQUOT (the thread has its minimum, and none is free), ENOMEM (the pool has no unit at present),
 * ENXIO (the process has no pool), EIO (the pool was overwritten). */
void *cbuf_alloc(size_t size, cbuf_t *id);

/* Releases a buffer. 0; or -EINVAL (no buffer begins there), -EPERM (the calling thread does not have it), -ENXIO. */
int cbuf_free(void *buffer);

/* Where the buffer of this name is, with at least so many bytes. NULL with errno ENOENT: the name is of no buffer, of an
 * earlier use, or of a smaller one. */
const void *cbuf2buf(cbuf_t id, size_t size);

#ifdef __cplusplus
}
#endif

#endif
