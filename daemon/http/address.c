/* address: see address.h. */
#include "http/address.h"

#include "http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { ADDRESS_BACKLOG = 128, ADDRESS_PORT_DIGITS = 5 };

static const char address_expected[] =
	"expected auto, off, a PORT, HOST:PORT, [IPV6]:PORT or unix:/PATH";

/* ---- reading an address ---- */

static bool address_port(const char *text, uint16_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	if (!digits || text[digits] || digits > ADDRESS_PORT_DIGITS)
		return false;
	unsigned long port = strtoul(text, NULL, 10);
	*ret = (uint16_t)port;
	return port <= UINT16_MAX;
}

static int address_refuse(const char *text, const char *why, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s, got \"%s\"%s", address_expected, text, why);
}

static int address_parse_path(
	const char *text, const char *path, struct address *ret, struct fault *fault)
{
	size_t length = strlen(path);
	if (path[0] != '/' || path[length - 1] == '/')
		return address_refuse(text, ": the path of a socket must be absolute", fault);
	if (length >= sizeof ret->path)
		return fault_set(fault, -EINVAL,
			"the path of the page's socket has %zu bytes, but a Unix socket's may have "
			"at "
			"most %zu: name a shorter one, or a PORT (%s)",
			length, sizeof ret->path - 1, path);
	ret->local = true;
	memcpy(ret->path, path, length + 1);
	return 0;
}

/* Whether the text has only characters of names and IPv4 addresses. */
static bool address_is_name(const char *text, size_t length)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.-_";
	return length && length < ADDRESS_HOST && strspn(text, allowed) >= length;
}

static int address_parse_host(const char *text, struct address *ret, struct fault *fault)
{
	struct in6_addr six;
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	if (!colon || !address_port(colon + 1, &ret->port))
		return address_refuse(text, ": a port is a number from 0 to 65535", fault);
	if (text[0] == '[' && length > 2 && text[length - 1] == ']' && length < ADDRESS_HOST) {
		memcpy(ret->host, text + 1, length - 2);
		ret->host[length - 2] = 0;
		if (inet_pton(AF_INET6, ret->host, &six) == 1)
			return 0;
		return address_refuse(text, ": the brackets do not hold an IPv6 address", fault);
	}
	if (!address_is_name(text, length))
		return address_refuse(text,
			memchr(text, ':', length) ? ": write an IPv6 address in brackets"
						  : ": the text before the colon is not a host",
			fault);
	memcpy(ret->host, text, length);
	ret->host[length] = 0;
	return 0;
}

int address_parse(const char *text, const char *folder, struct address *ret, struct fault *fault)
{
	char path[4096 + 16];
	struct address address = {.host = "127.0.0.1"};
	int result = 0;
	if (strcmp(text, "auto") == 0) {
		(void)snprintf(path, sizeof path, "%s/http.sock", folder ? folder : "");
		result = address_parse_path(text, path, &address, fault);
	} else if (strncmp(text, "unix:", 5) == 0) {
		result = address_parse_path(text, text + 5, &address, fault);
	} else if (!address_port(text, &address.port)) {
		result = address_parse_host(text, &address, fault);
	}
	if (!result)
		*ret = address;
	return result;
}

int http_check_address(const char *address, struct fault *fault)
{
	struct address ignored;
	return strcmp(address, "off") == 0 ? 0 : address_parse(address, NULL, &ignored, fault);
}

/* ---- a Unix socket ---- */

static int address_say_path(const char *path, int error, struct fault *fault)
{
	const char *advice = error == ENOENT   ? "make the folder above it"
			     : error == EACCES ? "name one that you may write to"
					       : "name another one";
	return fault_set(fault, -error,
		"cannot listen for the page on unix:%s: %s; %s (http, --http)", path,
		strerror(error), advice);
}

/* Whether a process listens there, also a busy one. A socket that no process holds refuses
 * connections. */
static bool address_is_alive(const struct sockaddr_un *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return true;
	bool alive = connect(fd, (const struct sockaddr *)name, sizeof *name) == 0 ||
		     errno != ECONNREFUSED;
	(void)close(fd);
	return alive;
}

/* Removes what is at the path, if it is a socket that a dead daemon left. */
static int address_clear(const struct sockaddr_un *name, struct fault *fault)
{
	struct stat status;
	if (lstat(name->sun_path, &status))
		return errno == ENOENT ? 0 : address_say_path(name->sun_path, errno, fault);
	if (!S_ISSOCK(status.st_mode))
		return fault_set(fault, -EEXIST,
			"cannot listen for the page on unix:%s: that is a file, not a socket; "
			"remove "
			"it, or name another path (http, --http)",
			name->sun_path);
	if (address_is_alive(name))
		return fault_set(fault, -EADDRINUSE,
			"cannot listen for the page on unix:%s: another process listens there; end "
			"it, or name another path (http, --http)",
			name->sun_path);
	return unlink(name->sun_path) && errno != ENOENT
		       ? address_say_path(name->sun_path, errno, fault)
		       : 0;
}

static int address_listen_local(
	const struct address *address, struct address_socket *ret, struct fault *fault)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct stat status;
	memcpy(name.sun_path, address->path, sizeof name.sun_path);
	int result = address_clear(&name, fault);
	if (result)
		return result;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* bind gives the path the mode of the socket. */
	if (fd < 0 || fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&name, sizeof name) ||
		lstat(name.sun_path, &status) || listen(fd, ADDRESS_BACKLOG)) {
		result = address_say_path(address->path, errno, fault);
		if (fd >= 0)
			(void)close(fd);
		return result;
	}
	*ret = (struct address_socket){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
	(void)snprintf(ret->text, sizeof ret->text, "unix:%s", address->path);
	return 0;
}

/* ---- TCP ---- */

static int address_say_host(const struct address *address, int error, struct fault *fault)
{
	const char *advice = "name another address (http, --http)";
	if (error == EADDRINUSE)
		advice = "another process listens there: end it, or name another port (http, "
			 "--http)";
	else if (error == EADDRNOTAVAIL)
		advice = "this machine does not have that address: name one that `ip address` "
			 "lists, or only a PORT for 127.0.0.1 (http, --http)";
	else if (error == EACCES)
		advice = "only root may use ports below 1024: name another one (http, --http)";
	else if (error == EAFNOSUPPORT)
		advice = "this system or service does not allow such addresses: name a Unix socket "
			 "(http, --http)";
	return fault_set(fault, -error, "cannot listen for the page on %s, port %u: %s; %s",
		address->host, address->port, strerror(error), advice);
}

static bool address_is_loopback(const struct sockaddr_storage *name)
{
	if (name->ss_family == AF_INET) {
		const struct sockaddr_in *four = (const void *)name;
		return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	}
	const struct sockaddr_in6 *six = (const void *)name;
	return name->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* Describes the socket as a URL for a browser, with the port that was chosen. */
static int address_describe(int fd, struct address_socket *ret)
{
	struct sockaddr_storage name = {0};
	socklen_t size = sizeof name;
	char host[64], port[8];
	if (getsockname(fd, (struct sockaddr *)&name, &size))
		return -errno;
	if (getnameinfo((struct sockaddr *)&name, size, host, sizeof host, port, sizeof port,
		    NI_NUMERICHOST | NI_NUMERICSERV))
		return -EINVAL;
	*ret = (struct address_socket){.fd = fd, .open = !address_is_loopback(&name)};
	(void)snprintf(ret->text, sizeof ret->text,
		name.ss_family == AF_INET6 ? "http://[%s]:%s/" : "http://%s:%s/", host, port);
	return 0;
}

static int address_try(const struct addrinfo *info, struct address_socket *ret)
{
	int one = 1, result = 0;
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* A restarted daemon must not wait for old connections of its predecessor. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	/* [::] means only IPv6; a user who wants IPv4 writes 0.0.0.0. */
	if (info->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, ADDRESS_BACKLOG))
		result = -errno;
	if (!result)
		result = address_describe(fd, ret);
	if (result)
		(void)close(fd);
	return result;
}

static int address_listen_tcp(
	const struct address *address, struct address_socket *ret, struct fault *fault)
{
	struct addrinfo hints = {
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char port[8];
	(void)snprintf(port, sizeof port, "%u", address->port);
	int problem = getaddrinfo(address->host, port, &hints, &found), result = -EADDRNOTAVAIL;
	if (problem)
		return fault_set(fault, -EADDRNOTAVAIL,
			"cannot listen for the page on %s: %s; name an address of this machine, or "
			"only a PORT for 127.0.0.1 (http, --http)",
			address->host, gai_strerror(problem));
	for (const struct addrinfo *info = found; info && result; info = info->ai_next)
		result = address_try(info, ret);
	freeaddrinfo(found);
	return result ? address_say_host(address, -result, fault) : 0;
}

int address_listen(const struct address *address, struct address_socket *ret, struct fault *fault)
{
	return address->local ? address_listen_local(address, ret, fault)
			      : address_listen_tcp(address, ret, fault);
}

void address_close(const struct address *address, struct address_socket *socket)
{
	struct stat status;
	if (socket->fd < 0)
		return;
	if (address->local && lstat(address->path, &status) == 0 &&
		status.st_dev == socket->device && status.st_ino == socket->inode)
		(void)unlink(address->path);
	(void)close(socket->fd);
	socket->fd = -1;
}

/* ---- Host ---- */

/* The host of a Host field without its port; false where the field is invalid. */
static bool address_host_of(const char *text, char *ret, size_t room)
{
	const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');
	size_t length = end ? (size_t)(end - text) + (text[0] == '[') : strlen(text);
	uint16_t port;
	if ((text[0] == '[' && !end) || !length || length >= room)
		return false;
	if (text[length] && (text[length] != ':' || !address_port(text + length + 1, &port)))
		return false;
	memcpy(ret, text, length);
	ret[length] = 0;
	if (length > 1 && ret[length - 1] == '.') /* the root of the DNS, written out */
		ret[length - 1] = 0;
	return true;
}

static bool address_is_number(char *host)
{
	struct in6_addr six;
	struct in_addr four;
	size_t length = strlen(host);
	if (host[0] != '[')
		return inet_pton(AF_INET, host, &four) == 1;
	host[length - 1] = 0;
	bool is = inet_pton(AF_INET6, host + 1, &six) == 1;
	host[length - 1] = ']';
	return is;
}

bool address_names_us(const char *text, const char *const *names, size_t count)
{
	char host[ADDRESS_HOST];
	if (!address_host_of(text, host, sizeof host))
		return false;
	bool ours = strcasecmp(host, "localhost") == 0 || address_is_number(host);
	for (size_t i = 0; i < count && !ours; i++)
		ours = names[i][0] && strcasecmp(host, names[i]) == 0;
	return ours;
}
