#define _GNU_SOURCE
// floor: a server that does nothing. It answers put, reserve and delete as a
// beanstalk server would, but stores no jobs: each reserve gets the last body.
// Its throughput is the most that any server with one thread and epoll can reach
// on a machine, with the load generator on the same machine.
//
// With the path of a file as the first argument it only stores bodies:
// it writes them over the file, and syncs it once per loop iteration, before it answers.
//
//	make bench-floor
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 4 << 20, CONNECTIONS = 65536, EVENTS = 512, FILE_SIZE = 64 << 20 };

struct connection {
	char *in, *out; // BUFFER bytes each
	size_t have, filled;
};

static struct connection connections[CONNECTIONS];
static char body[BUFFER];
static size_t body_len;

// file is what bodies are written to, -1 for none; file_at is where the next one goes, and
// unsynced reports that some were written in this loop iteration.
static int file = -1, unsynced;
static size_t file_at;

// put and taken are the ids of the last jobs that were put and reserved.
static unsigned long put, taken;

// keep writes a body over what is in the file.
static void keep(char *bytes, size_t len) {
	if (file_at + len > FILE_SIZE) file_at = 0;
	if (pwrite(file, bytes, len, file_at) != (ssize_t)len) perror("pwrite"), exit(1);
	file_at += len;
	unsynced = 1;
}

// answer writes the reply to the command at line to out. It returns the length of the
// command, 0 if it is incomplete.
static size_t answer(char *line, size_t have, char *out, size_t *filled) {
	char *end = memchr(line, '\n', have);
	if (!end) return 0;
	size_t used = end + 1 - line;
	if (!strncmp(line, "put ", 4)) {
		size_t len = strtoul(strrchr((*end = 0, line), ' ') + 1, 0, 10);
		*end = '\n';
		if (have < used + len + 2) return 0;
		if (len != body_len) memcpy(body, line + used, body_len = len);
		if (file >= 0) keep(line + used, len);
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

// take reads once, and executes the commands.
static void take(int fd) {
	struct connection *c = &connections[fd];
	if (!c->in) c->in = malloc(BUFFER), c->out = malloc(BUFFER);
	ssize_t n = read(fd, c->in + c->have, BUFFER - c->have);
	if (n <= 0) {
		close(fd);
		c->have = c->filled = 0;
		return;
	}
	c->have += n;
	size_t at = 0, used;
	while ((used = answer(c->in + at, c->have - at, c->out, &c->filled))) at += used;
	memmove(c->in, c->in + at, c->have -= at);
}

// tell sends the replies.
static void tell(int fd) {
	struct connection *c = &connections[fd];
	for (size_t sent = 0; sent < c->filled;) {
		ssize_t w = write(fd, c->out + sent, c->filled - sent);
		if (w > 0) sent += w;
		else if (errno != EAGAIN) break;
	}
	c->filled = 0;
}

// turn is one loop iteration: it serves ready connections one after the other, or, with a file, all
// of them between one sync and the next.
static void turn(struct epoll_event *events, int n) {
	for (int i = 0; i < n; i++) {
		take(events[i].data.fd);
		if (file < 0) tell(events[i].data.fd);
	}
	if (file < 0) return;
	if (unsynced && fdatasync(file)) perror("fdatasync"), exit(1);
	unsynced = 0;
	for (int i = 0; i < n; i++) tell(events[i].data.fd);
}

// open_file makes a file of zeros, so that a sync need not change its size.
static void open_file(char *path) {
	if ((file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0) perror(path), exit(1);
	for (int i = 0; i < FILE_SIZE / BUFFER; i++) keep(body, BUFFER);
	if (fsync(file)) perror("fsync"), exit(1);
}

int main(int argc, char **argv) {
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
	struct sockaddr_in a = {AF_INET, htons(atoi(argv[argc - 1])), {htonl(INADDR_LOOPBACK)}};
	if (argc > 2) open_file(argv[1]);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (void *)&a, sizeof a) || listen(listener, 1024)) return perror("listen"), 1;
	struct epoll_event e = {EPOLLIN, {.fd = listener}}, events[EVENTS];
	epoll_ctl(poll, EPOLL_CTL_ADD, listener, &e);
	for (;;) {
		int n = epoll_wait(poll, events, EVENTS, -1), clients = 0;
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd != listener) {
				events[clients++] = events[i];
				continue;
			}
			int fd = accept4(listener, 0, 0, SOCK_NONBLOCK);
			if (fd < 0 || fd >= CONNECTIONS) continue;
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
			e = (struct epoll_event){EPOLLIN, {.fd = fd}};
			epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e);
		}
		turn(events, clients);
	}
}
