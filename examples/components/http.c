/* The front of an HTTP service: takes a connection, asks the component `files` for what is to be sent, and tells `log`.
 * It listens on 127.0.0.1, at the port that the environment variable FREEHOLD_HTTP_PORT names. */
#include "request.h"

enum { FILES, LOG }; /* `calls` of the composition */

/* The path is in a buffer of this component's, the content in one of `files`, which releases it when told. */
static void answer(const struct freehold_self *self, int connection, const char *path)
{
	char copy[4096], head[64];
	uint64_t none[6] = {0};
	cbuf_t name;
	char *buffer = self->cbuf_alloc(self, 256, &name);

	if (buffer == NULL) {
		refuse(connection, "503 No buffer");
		return;
	}
	snprintf(buffer, 256, "%s", path);
	uint64_t ask[6] = {name};
	int64_t content = self->call(self, FILES, FILES_GET, ask);
	self->cbuf_free(self, buffer);
	if (content <= 0) {
		refuse(connection, content == 0 ? "404 Not found" : "503 No files");
		return;
	}
	int64_t bytes = fetch(self, FILES, (cbuf_t)content, copy, sizeof(copy));
	if (bytes < 0) {
		refuse(connection, "503 No files");
		return;
	}
	int length = snprintf(head, sizeof(head), "HTTP/1.0 200 OK\r\nContent-Length: %lld\r\n\r\n", (long long)bytes);
	send_all(connection, head, (size_t)length);
	send_all(connection, copy, (size_t)bytes);
	self->call(self, LOG, 0, none);
}

static void start(const struct freehold_self *self)
{
	serve(self, first_port(), answer);
}

const struct freehold_component freehold_component = {.version = FREEHOLD_COMPONENT_VERSION, .start = start};
