/* address: where the page is to be found, as people write it, and the socket that listens there.
 *
 *     auto               http.sock in the folder of the daemon's socket
 *     PORT               on 127.0.0.1; 0 takes one that is free
 *     HOST:PORT          an address of this machine, or a name of one
 *     [IPV6]:PORT
 *     unix:/PATH         a Unix socket, mode 0600
 *
 * Setting up alone, but for address_names_us, which is pure. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ADDRESS_PATH = 108, /* of a Unix socket, its zero included: unix(7) */
	ADDRESS_HOST = 256, /* a name of the DNS and its zero */
	ADDRESS_TEXT = 300, /* of what can be written, and of what address_listen says */
};

struct address {
	bool local; /* a Unix socket */
	char path[ADDRESS_PATH];
	char host[ADDRESS_HOST];
	uint16_t port;
};

/* What `text` means; `folder` is where `auto` lies (NULL: it is not needed to tell whether an
 * address is one). 0, or -EINVAL with a sentence. Pure. */
int address_parse(const char *text, const char *folder, struct address *ret, struct fault *fault);

struct address_socket {
	int fd; /* listens; not blocking, CLOEXEC */
	bool open; /* others than the users of this machine may reach it */
	char text[ADDRESS_TEXT]; /* "http://127.0.0.1:9470/" or "unix:/run/.../http.sock" */
	dev_t device; /* of a Unix socket's name, so that only ours is taken away */
	ino_t inode;
};

/* Listens. A Unix socket that nobody listens on any more is replaced. 0; or -EADDRINUSE,
 * -EADDRNOTAVAIL, -EACCES, -EEXIST (a file that is no socket lies there), ... with a sentence. A
 * host's name is looked up, which may take as long as the resolver does. */
int address_listen(const struct address *address, struct address_socket *ret, struct fault *fault);

/* Closes it, and takes its name away where that is still its own. */
void address_close(const struct address *address, struct address_socket *socket);

/* Whether a request's Host is one of ours: an address, localhost, or one of `names`. A page of
 * another name is a stranger's whose name was made to lead here (DNS rebinding). Pure. */
bool address_names_us(const char *host, const char *const *names, size_t count);
