/* address: where the server listens, as people write it, and its listening socket.
 *
 *     auto               http.sock in the folder of the daemon's socket
 *     PORT               on 127.0.0.1; 0 takes a free one
 *     HOST:PORT          an address of this machine, or a name of one
 *     [IPV6]:PORT
 *     unix:/PATH         a Unix socket, mode 0600
 *
 * For set-up only, except address_names_us, which is pure. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ADDRESS_PATH = 108, /* the path of a Unix socket and its zero byte: unix(7) */
	ADDRESS_HOST = 256, /* a DNS name and its zero byte */
	ADDRESS_TEXT = 300, /* an address as it is written, and as address_listen describes it */
};

struct address {
	bool local; /* a Unix socket */
	char path[ADDRESS_PATH];
	char host[ADDRESS_HOST];
	uint16_t port;
};

/* Reads an address. `folder` is for `auto`; it may be NULL where only the result matters. 0, or
 * -EINVAL with a sentence. Pure. */
int address_parse(const char *text, const char *folder, struct address *ret, struct fault *fault);

struct address_socket {
	int fd; /* listens; not blocking, CLOEXEC */
	bool open; /* clients on other machines can reach it */
	char text[ADDRESS_TEXT]; /* "http://127.0.0.1:9470/" or "unix:/run/.../http.sock" */
	dev_t device; /* of a Unix socket's name, so that address_close removes only its own */
	ino_t inode;
};

/* Listens. Replaces a Unix socket on which no process listens any more. 0; or -EADDRINUSE,
 * -EADDRNOTAVAIL, -EACCES, -EEXIST (the path is a file that is not a socket), ... with a sentence.
 * Looks up the host's name, which blocks for as long as the resolver takes. */
int address_listen(const struct address *address, struct address_socket *ret, struct fault *fault);

/* Closes the socket, and removes its name if that is still its own. */
void address_close(const struct address *address, struct address_socket *socket);

/* Whether a request's Host means this machine: an address, localhost, or one of `names`. A request
 * with another name comes from a foreign page whose name was made to lead here (DNS rebinding).
 * Pure. */
bool address_names_us(const char *host, const char *const *names, size_t count);
