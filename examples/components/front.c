/* One of several fronts of an HTTP service (service.toml): takes connections of its own port, one after the other. The
 * first component of the composition listens at the port that FREEHOLD_HTTP_PORT names, the second at the next, ... Each
 * answer is a job of the front's class. */
#include "request.h"

enum { PARSE, FILES, LOG }; /* `calls` of the composition */

static void answer(const struct freehold_self *self, int connection, const char *path)
{
	static const char *const types[] = {"text/plain", "text/html"};
	char copy[4096], head[128];
	int64_t type, content, bytes;
	uint64_t none[6] = {0};
	cbuf_t name;
	char *buffer = self->cbuf_alloc(self, 256, &name);

	if (buffer == NULL) {
		refuse(connection, "503 No buffer");
		return;
	}
	snprintf(buffer, 256, "%s", path);
	uint64_t ask[6] = {name};
	type = self->call(self, PARSE, 0, ask);
	content = type < 0 ? type : self->call(self, FILES, FILES_GET, ask);
	self->cbuf_free(self, buffer);
	if (type < 0 || content <= 0) {
		refuse(connection, content == 0 ? "404 Not found" : "503 No answer");
		return;
	}
	bytes = fetch(self, FILES, (cbuf_t)content, copy, sizeof(copy));
	if (bytes < 0) {
		refuse(connection, "503 No files");
		return;
	}
	int length = snprintf(head, sizeof(head), "HTTP/1.0 200 OK\r\nContent-Type: %s\r\nContent-Length: %lld\r\n\r\n",
		types[type != 0], (long long)bytes);
	send_all(connection, head, (size_t)length);
	send_all(connection, copy, (size_t)bytes);
	self->call(self, LOG, 0, none);
}

static void answer_as_job(const struct freehold_self *self, int connection, const char *path)
{
	self->job_begin(self, 0);
	answer(self, connection, path);
	self->job_end(self);
}

static void start(const struct freehold_self *self)
{
	serve(self, first_port() + (int)self->component - 1, answer_as_job);
}

const struct freehold_component freehold_component = {.version = FREEHOLD_COMPONENT_VERSION, .start = start};
