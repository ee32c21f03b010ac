/* views: the key `views` of a definition: how many rows a sample has, and, where they are divided
 * into groups, how the rows of each group are made.
 *
 * It is a number, or a list of groups with a count, a size and a list of operations each. The
 * views' numbers count over all groups, and a view draws by its number: a list of one group means
 * what the number means.
 *
 * A definition is copied by value, and a `struct transforms` takes 20 KB, so the lists of the
 * groups are packed into one area: runs of words, with the zeros between them left out. Pure
 * functions; any thread that has 128 KiB of stack. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "definition/transforms/transforms.h"
#include "pixel/pixel.h"
#include "proto/jsontext.h"
#include "proto/slots.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	VIEWS_MAX = SLOTS_VIEWS_MAX, /* of all groups together */
	VIEWS_WORDS = 2048, /* of the packed lists: an operation takes about 16 */
};

struct views_group {
	char name[WIRE_NAME]; /* "": none */
	uint32_t count;
	/* The size that was written or that the list makes; 0 x 0: neither, until views_settle. */
	struct pixel_size size;
	enum weights_filter interpolation; /* of the list, or the one that was written */
	bool filtered; /* interpolation was written */
	uint32_t from, words; /* where its list is packed; 0 words: it has none */
};

struct views {
	uint32_t count; /* of all groups together, 1 .. VIEWS_MAX; default 1 */
	uint32_t groups; /* 0: a number was written */
	struct views_group group[SLOTS_GROUPS_MAX];
	uint32_t used; /* words of `packed` */
	uint64_t packed[VIEWS_WORDS];
};

/* A reader for struct yaml_key: `field` is a struct views, which is written only on success. 0,
 * -EINVAL or -ENOMEM. */
int views_read(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The stream's own list, size and filter, which a group has that writes none. */
struct views_defaults {
	const struct transforms *transforms; /* NULL: `train` decides */
	struct pixel_size size;
	enum weights_filter interpolation;
};

/* Gives every group what it did not write. 0; -EINVAL with a sentence (`room` bytes) where the keys
 * contradict each other or the lists have no room. Settling again changes nothing. */
int views_settle(
	struct views *views, const struct views_defaults *defaults, char *ret_wrong, size_t room);

/* Whether a group has a list, and a size or a filter, of its own. */
bool views_has_list(const struct views_group *group);

/* Unpacks the list of a group; count 0 where it has none. */
void views_transforms(
	const struct views *views, const struct views_group *group, struct transforms *ret);

/* The largest height and the largest width of all groups. */
struct pixel_size views_largest(const struct views *views);

/* What messages call group `number`: "views[1]", or with a name "views[1] (local)". */
enum { VIEWS_CALLED = 48 };
const char *views_called(uint32_t number, const char *name, char ret[VIEWS_CALLED]);

/* Whether groups, counts and names are the same. Lists are compared by their hash (spec.h). */
bool views_equal(const struct views *a, const struct views *b);

/* Writes a number, or the list of groups with all that decides about their pixels. Reading it back
 * gives the same views. */
void views_json(struct jsontext *json, const char *key, const struct views *views);

/* Writes "2 x 224 px + 8 x 96 px", with names "global 2 x 224 px + ...", for people; a number
 * without groups. Truncates to the room. */
void views_text(const struct views *views, char *buffer, size_t room);
