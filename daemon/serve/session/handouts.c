/* handouts: see handouts.h. */
#define LOG_TOPIC LOG_MEMORY
#include "serve/session/handouts.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "serve/state.h"

#include <stdlib.h>

enum { HANDOUTS_LOOK_MS = 10, HANDOUTS_TOLD_S = 5 };
#define HANDOUTS_YOUNG_NS 250000000ull

struct kept {
	struct list_node node;
	struct peer *peer;
	enum peer_kind kind;
	struct handout handout;
	int line; /* of the ledger */
	uint64_t bytes, since_ns;
	bool told;
};

static void handouts_return(struct server *server, struct kept *kept)
{
	handout_deinit(&kept->handout);
	ledger_release(&server->ledger, kept->line);
	peer_discharge(&server->peers, kept->peer, kept->kind);
}

void handouts_keep(struct server *server, struct peer *peer, enum peer_kind kind,
	struct handout handout, int line, uint64_t bytes)
{
	struct kept made = {.peer = peer,
		.kind = kind,
		.handout = handout,
		.line = line,
		.bytes = bytes,
		.since_ns = clock_ns()};
	struct kept *kept = malloc(sizeof *kept);
	if (!kept) {
		/* Nothing better can be done than not to count it any more. */
		handouts_return(server, &made);
		return;
	}
	*kept = made;
	list_prepend(&server->handouts, &kept->node);
}

static void handouts_remove(struct server *server, struct kept *kept)
{
	list_remove(&server->handouts, &kept->node);
	handouts_return(server, kept);
	free(kept);
}

/* Logs, once, what seems to have been forgotten: views that are still referred to, or a leak. */
static void handouts_tell(struct kept *kept)
{
	char size[16];
	if (kept->told || kept->kind != PEER_KEPT ||
		clock_ns() - kept->since_ns < HANDOUTS_TOLD_S * STATE_SECOND_NS)
		return;
	kept->told = true;
	log_info("a stream of process %d has ended, but its batches (%s) are still mapped "
		 "somewhere: they count toward memory until they are released",
		kept->peer ? (int)kept->peer->name.pid : 0,
		size_format(kept->bytes, size, sizeof size));
}

void handouts_sweep(struct server *server)
{
	if (!list_is_empty(&server->handouts))
		handout_look();
	list_each_removable (kept, &server->handouts, struct kept, node)
		if (handout_is_held(&kept->handout))
			handouts_tell(kept);
		else
			handouts_remove(server, kept);
}

bool handouts_returns(const struct server *server)
{
	uint64_t now = list_is_empty(&server->handouts) ? 0 : clock_ns();
	list_each (kept, &server->handouts, struct kept, node)
		if (kept->kind == PEER_KEPT && now - kept->since_ns < HANDOUTS_YOUNG_NS)
			return true;
	return false;
}

int handouts_timeout_ms(const struct server *server, int timeout_ms)
{
	if (!handouts_returns(server) || (timeout_ms >= 0 && timeout_ms < HANDOUTS_LOOK_MS))
		return timeout_ms;
	return HANDOUTS_LOOK_MS;
}

uint64_t handouts_bytes(const struct server *server)
{
	uint64_t bytes = 0;
	list_each (kept, &server->handouts, struct kept, node)
		bytes += kept->bytes;
	return bytes;
}

void handouts_deinit(struct server *server)
{
	list_each_removable (kept, &server->handouts, struct kept, node)
		handouts_remove(server, kept);
}
