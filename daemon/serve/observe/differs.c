/* differs: what tells a stream apart from the other streams of its dataset. */
#include "serve/observe/observe.h"

#include "definition/spec_differ.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <stdio.h>
#include <string.h>

void differs_text(const struct group *group, char *buffer, size_t room)
{
	const struct member *first = list_first(&group->members, struct member, of_group);
	bool others = false;
	uint64_t keys = 0;
	list_each (g, &group->server->groups, struct group, node) {
		if (g == group || g->closing || strcmp(g->spec.source, group->spec.source) != 0)
			continue;
		others = true;
		keys |= spec_differ(&group->spec, &g->spec);
	}
	(void)spec_differ_text(&group->spec, keys, buffer, room);
	if (others && !keys && first && !group->spec.name[0] && !group->job)
		(void)snprintf(buffer, room, "trainer %d", (int)first->client->pid);
}

void differs_name(const struct group *group, char *buffer, size_t room)
{
	const struct stream_spec *spec = &group->spec;
	const char *slash = strrchr(spec->source, '/');
	char text[DIFFERS_TEXT];
	if (spec->share == SPEC_SHARE_SPLIT) {
		(void)snprintf(buffer, room, "%s rank %u", spec->name, spec->rank);
	} else if (spec->name[0]) {
		(void)snprintf(buffer, room, "%s", spec->name);
	} else {
		differs_text(group, text, sizeof text);
		(void)snprintf(buffer, room, "%.80s%s%s%s",
			slash && slash[1] ? slash + 1 : spec->source, *text ? " (" : "", text,
			*text ? ")" : "");
	}
}
