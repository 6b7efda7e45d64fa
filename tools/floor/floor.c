#define _GNU_SOURCE
// floor: a server that does nothing. It answers put, reserve and delete as a
// beanstalk server would, but keeps no jobs: each reserve gets the last body.
// What it reaches is the most that any server of one thread and epoll can reach
// on a machine, under the generator that is beside it.
//
//	make bench-floor
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 4 << 20, CONNECTIONS = 65536 };

struct connection {
	char *in;
	size_t have;
};

static struct connection connections[CONNECTIONS];
static char out[BUFFER];
static char body[BUFFER];
static size_t body_len;

// put and taken are the ids of the last jobs that were put and reserved.
static unsigned long put, taken;

// answer writes what the command at line is answered with. It returns how many
// bytes of input the command has, 0 if it is not there as a whole.
static size_t answer(char *line, size_t have, size_t *filled) {
	char *end = memchr(line, '\n', have);
	if (!end) return 0;
	size_t used = end + 1 - line;
	if (!strncmp(line, "put ", 4)) {
		size_t len = strtoul(strrchr((*end = 0, line), ' ') + 1, 0, 10);
		*end = '\n';
		if (have < used + len + 2) return 0;
		if (len != body_len) memcpy(body, line + used, body_len = len);
		*filled += sprintf(out + *filled, "INSERTED %lu\r\n", ++put);
		return used + len + 2;
	}
	if (!strncmp(line, "reserve", 7) && taken == put) {
		*filled += sprintf(out + *filled, "TIMED_OUT\r\n");
	} else if (!strncmp(line, "reserve", 7)) {
		*filled += sprintf(out + *filled, "RESERVED %lu %zu\r\n", ++taken, body_len);
		memcpy(out + *filled, body, body_len);
		*filled += body_len;
		*filled += sprintf(out + *filled, "\r\n");
	} else if (!strncmp(line, "delete", 6)) {
		*filled += sprintf(out + *filled, "DELETED\r\n");
	} else if (!strncmp(line, "kick", 4)) {
		*filled += sprintf(out + *filled, "KICKED 0\r\n");
	} else if (!strncmp(line, "use ", 4)) {
		*filled += sprintf(out + *filled, "USING x\r\n");
	} else {
		*filled += sprintf(out + *filled, "WATCHING 1\r\n");
	}
	return used;
}

// serve reads once, and writes the answers at once.
static void serve(int fd) {
	struct connection *c = &connections[fd];
	if (!c->in) c->in = malloc(BUFFER);
	ssize_t n = read(fd, c->in + c->have, BUFFER - c->have);
	if (n <= 0) {
		close(fd);
		c->have = 0;
		return;
	}
	c->have += n;
	size_t at = 0, filled = 0, used;
	while ((used = answer(c->in + at, c->have - at, &filled))) at += used;
	memmove(c->in, c->in + at, c->have -= at);
	for (size_t sent = 0; sent < filled;) {
		ssize_t w = write(fd, out + sent, filled - sent);
		if (w > 0) sent += w;
		else if (errno != EAGAIN) return;
	}
}

int main(int argc, char **argv) {
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
	struct sockaddr_in a = {AF_INET, htons(atoi(argv[argc - 1])), {htonl(INADDR_LOOPBACK)}};
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (void *)&a, sizeof a) || listen(listener, 1024)) return perror("listen"), 1;
	struct epoll_event e = {EPOLLIN, {.fd = listener}}, events[512];
	epoll_ctl(poll, EPOLL_CTL_ADD, listener, &e);
	for (;;) {
		int n = epoll_wait(poll, events, 512, -1);
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd != listener) {
				serve(events[i].data.fd);
				continue;
			}
			int fd = accept4(listener, 0, 0, SOCK_NONBLOCK);
			if (fd < 0 || fd >= CONNECTIONS) continue;
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
			e = (struct epoll_event){EPOLLIN, {.fd = fd}};
			epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e);
		}
	}
}
