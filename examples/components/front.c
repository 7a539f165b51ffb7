/* One of several fronts of an HTTP service (service.toml): takes connections of its own port, one after the other. The
 * first component of the composition listens at the port that FREEHOLD_HTTP_PORT names, the second at the next, ... Each
 * answer is a job of the front's class. */
#include "freehold_component.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PARSE, FILES, LOG };     /* `calls` of the composition */
enum { FILES_GET, FILES_DONE }; /* functions of `files` */

static void send_all(int connection, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t sent = send(connection, text, length, MSG_NOSIGNAL);
		if (sent <= 0)
			return;
		text += sent;
		length -= (size_t)sent;
	}
}

static void refuse(int connection, const char *status)
{
	char head[128];
	int length = snprintf(head, sizeof(head), "HTTP/1.0 %s\r\nContent-Length: 0\r\n\r\n", status);

	send_all(connection, head, (size_t)length);
}

/* Copies what `files` has under this name, then has it released; the length, or a negative number. */
static int64_t fetch(const struct freehold_self *self, cbuf_t content, char *copy, size_t room)
{
	uint64_t done[6] = {content};
	uint32_t bytes = 0;
	const char *text;
	const uint32_t *length = self->cbuf2buf(self, content, sizeof(*length));

	if (length != NULL)
		bytes = *length;
	text = bytes > room ? NULL : self->cbuf2buf(self, content, sizeof(bytes) + bytes);
	if (length != NULL && text != NULL)
		memcpy(copy, text + sizeof(bytes), bytes);
	if (self->call(self, FILES, FILES_DONE, done) != 0 || length == NULL || text == NULL)
		return -1;
	return bytes;
}

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
	bytes = fetch(self, (cbuf_t)content, copy, sizeof(copy));
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

/* Takes a request up to its empty line, in as many parts as it comes. */
static int receive(int connection, char *request, size_t room)
{
	size_t length = 0;

	while (length + 1 < room) {
		ssize_t part = recv(connection, request + length, room - 1 - length, 0);
		if (part <= 0)
			return 0;
		length += (size_t)part;
		if (strstr(request, "\r\n\r\n") != NULL)
			return 1;
	}
	return 0;
}

static void start(const struct freehold_self *self)
{
	const char *first = getenv("FREEHOLD_HTTP_PORT");
	int port = (first ? atoi(first) : 0) + (int)self->component - 1;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 64) != 0) {
		perror("front: cannot listen");
		exit(1);
	}
	for (;;) {
		char request[1024] = {0}, path[256];
		int connection = accept(listener, NULL, NULL);
		if (connection < 0)
			continue;
		if (receive(connection, request, sizeof(request)) && sscanf(request, "GET %255s", path) == 1) {
			self->job_begin(self, 0);
			answer(self, connection, path);
			self->job_end(self);
		} else {
			refuse(connection, "400 Bad request");
		}
		close(connection);
	}
}

const struct freehold_component freehold_component = {.version = FREEHOLD_COMPONENT_VERSION, .start = start};
