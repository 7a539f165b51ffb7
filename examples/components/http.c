/* The front of an HTTP service: takes a connection, asks the component `files` for what is to be sent, and tells `log`.
 * It listens on 127.0.0.1, at the port that the environment variable FREEHOLD_HTTP_PORT names. */
#include "freehold_component.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILES, LOG };          /* `calls` of the composition */
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

/* The path is in a buffer of this component's, the content in one of `files`, which releases it when told. */
static void answer(const struct freehold_self *self, int connection, const char *path)
{
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
	char copy[4096], head[64];
	const uint32_t *length = self->cbuf2buf(self, (cbuf_t)content, sizeof(*length));
	size_t bytes = length == NULL ? 0 : *length;
	const char *text = bytes > sizeof(copy) ? NULL : self->cbuf2buf(self, (cbuf_t)content, bytes + sizeof(*length));
	if (text != NULL)
		memcpy(copy, text + sizeof(*length), bytes);
	uint64_t done[6] = {(uint64_t)content};
	if (text == NULL || self->call(self, FILES, FILES_DONE, done) != 0) {
		refuse(connection, "503 No files");
		return;
	}
	int head_length = snprintf(head, sizeof(head), "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n", bytes);
	send_all(connection, head, (size_t)head_length);
	send_all(connection, copy, bytes);
	self->call(self, LOG, 0, done);
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
	const char *port = getenv("FREEHOLD_HTTP_PORT");
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(port ? atoi(port) : 0))};
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 64) != 0) {
		perror("http: cannot listen");
		exit(1);
	}
	for (;;) {
		char request[1024] = {0}, path[256];
		int connection = accept(listener, NULL, NULL);
		if (connection < 0)
			continue;
		if (receive(connection, request, sizeof(request)) && sscanf(request, "GET %255s", path) == 1)
			answer(self, connection, path);
		else
			refuse(connection, "400 Bad request");
		close(connection);
	}
}

const struct freehold_component freehold_component = {.version = FREEHOLD_COMPONENT_VERSION, .start = start};
