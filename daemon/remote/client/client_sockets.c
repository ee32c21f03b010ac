/* client_sockets: which sockets the client's epoll watches, for what, and whose they are. A socket
 * is named by its number: an event of one that was closed meanwhile finds another owner or none,
 * and costs that owner an empty read. */
#include "remote/client/client_impl.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

enum { SOCKETS_LEAST = 64 };

static int sockets_grow(struct client *client, size_t least)
{
	size_t room = UTIL_MAX(client->sockets_room, (size_t)SOCKETS_LEAST);
	while (room < least)
		room *= 2;
	struct client_connection **grown = realloc(client->sockets, room * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	memset(grown + client->sockets_room, 0, (room - client->sockets_room) * sizeof *grown);
	client->sockets = grown;
	client->sockets_room = room;
	return 0;
}

int client_sockets_watch(
	struct client *client, int fd, uint32_t events, struct client_connection *owner)
{
	struct epoll_event event = {.events = events, .data.fd = fd};
	if ((size_t)fd >= client->sockets_room && sockets_grow(client, (size_t)fd + 1) < 0)
		return -ENOMEM;
	client->sockets[fd] = owner;
	/* A socket that was closed has left the epoll, and its number may be used again. */
	if (epoll_ctl(client->epoll, EPOLL_CTL_MOD, fd, &event) == 0)
		return 0;
	if (errno == ENOENT && epoll_ctl(client->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	return -errno;
}

void client_sockets_forget(struct client *client, int fd)
{
	if ((size_t)fd < client->sockets_room)
		client->sockets[fd] = NULL;
	(void)epoll_ctl(client->epoll, EPOLL_CTL_DEL, fd, NULL);
}

struct client_connection *client_sockets_owner(const struct client *client, int fd)
{
	return (size_t)fd < client->sockets_room ? client->sockets[fd] : NULL;
}

void client_sockets_disown(struct client *client, const struct client_connection *owner)
{
	for (size_t fd = 0; fd < client->sockets_room; fd++)
		if (client->sockets[fd] == owner)
			client_sockets_forget(client, (int)fd);
}
