/* What a front of an HTTP service does on its connections: takes requests, one after the other, and sends answers. */
#ifndef REQUEST_H
#define REQUEST_H

#include "freehold_component.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* Copies the content that the component `files` has under this name, then has it released; the length, or a negative
 * number. `files` is its number among the caller's calls. */
static int64_t fetch(const struct freehold_self *self, uint32_t files, cbuf_t content, char *copy, size_t room)
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
	if (self->call(self, files, FILES_DONE, done) != 0 || length == NULL || text == NULL)
		return -1;
	return bytes;
}

/* The port that FREEHOLD_HTTP_PORT names. */
static int first_port(void)
{
	const char *port = getenv("FREEHOLD_HTTP_PORT");

	return port ? atoi(port) : 0;
}

/* Listens on 127.0.0.1 and answers the path of each request, for ever. */
static void serve(const struct freehold_self *self, int port,
	void (*answer)(const struct freehold_self *self, int connection, const char *path))
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 64) != 0) {
		perror("cannot listen");
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

#endif
