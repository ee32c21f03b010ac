/* session: see session.h. */
#include "serve/session/session.h"

#include "serve/state.h"

struct member *session_find_member(const struct client *client, uint32_t stream)
{
	list_each (m, &client->members, struct member, of_client)
		if (m->stream == stream)
			return m;
	return NULL;
}

unsigned session_group_size(const struct group *group)
{
	unsigned n = 0;
	list_each (m, &group->members, struct member, of_group)
		n++;
	return n;
}

unsigned session_group_present(const struct group *group)
{
	unsigned ranks = 0;
	if (!group->job)
		return session_group_size(group);
	list_each (g, &group->server->groups, struct group, node) {
		const struct member *m = list_first(&g->members, struct member, of_group);
		ranks += g->job == group->job && m && m->answered;
	}
	return ranks;
}

unsigned session_held(const struct member *member)
{
	return (unsigned)__builtin_popcountll(member->reader.held);
}
