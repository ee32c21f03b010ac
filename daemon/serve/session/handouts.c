/* lent: memory that clients were given and still have when the daemon is through with it: the slots
 * of streams that have ended, and answers too long for a message.
 *
 * It stays in memory whatever the daemon does (batch/handout.h), so it stays reserved in the ledger,
 * and charged to the process it was made for, until everybody has let go. Otherwise a trainer that
 * keeps what it was given and opens again and again would take the daemon far beyond its budget.
 *
 * Who closes a stream unmaps it in the next moment, so it is looked for often at first, then once a
 * second. */
#define LOG_TOPIC LOG_MEMORY
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"

#include <stdlib.h>

enum { LENT_LOOK_MS = 10, LENT_TOLD_S = 5 };
#define LENT_YOUNG_NS 250000000ull
#define LENT_SECOND_NS 1000000000ull

struct handouts {
	struct handouts *next;
	struct peer *peer;
	enum peer_kind kind;
	struct handout loan;
	int line; /* of the ledger */
	uint64_t bytes, since_ns;
	bool told;
};

void handouts_keep(struct server *server, struct peer *peer, enum peer_kind kind,
	struct handout loan, int line, uint64_t bytes)
{
	struct handouts *lent = malloc(sizeof *lent);
	if (!lent) {
		/* It counts no more, which is all that can be done. */
		handout_deinit(&loan);
		ledger_release(&server->ledger, line);
		peer_discharge(&server->peers, peer, kind);
		return;
	}
	*lent = (struct handouts){.next = server->lent,
		.peer = peer,
		.kind = kind,
		.loan = loan,
		.line = line,
		.bytes = bytes,
		.since_ns = clock_ns()};
	server->lent = lent;
}

static void handouts_let_go(struct server *server, struct handouts *lent)
{
	handout_deinit(&lent->loan);
	ledger_release(&server->ledger, lent->line);
	peer_discharge(&server->peers, lent->peer, lent->kind);
	free(lent);
}

/* Once, of what seems to have been forgotten: views that are still referred to, a leak. */
static void handouts_tell(struct handouts *lent)
{
	char size[16];
	if (lent->told || lent->kind != PEER_KEPT ||
		clock_ns() - lent->since_ns < LENT_TOLD_S * LENT_SECOND_NS)
		return;
	lent->told = true;
	log_info("a stream of process %d has ended, but its batches (%s) are still mapped "
		 "somewhere: they count towards memory until they are let go of",
		lent->peer ? (int)lent->peer->name.pid : 0,
		size_format(lent->bytes, size, sizeof size));
}

void handouts_sweep(struct server *server)
{
	if (server->lent)
		handout_look();
	for (struct handouts **place = &server->lent; *place;) {
		struct handouts *lent = *place;
		if (handout_is_held(&lent->loan)) {
			handouts_tell(lent);
			place = &lent->next;
			continue;
		}
		*place = lent->next;
		handouts_let_go(server, lent);
	}
}

bool handouts_returns(const struct server *server)
{
	uint64_t now = server->lent ? clock_ns() : 0;
	for (const struct handouts *l = server->lent; l; l = l->next)
		if (l->kind == PEER_KEPT && now - l->since_ns < LENT_YOUNG_NS)
			return true;
	return false;
}

int handouts_timeout_ms(const struct server *server, int timeout_ms)
{
	if (!handouts_returns(server) || (timeout_ms >= 0 && timeout_ms < LENT_LOOK_MS))
		return timeout_ms;
	return LENT_LOOK_MS;
}

uint64_t handouts_bytes(const struct server *server)
{
	uint64_t bytes = 0;
	for (const struct handouts *l = server->lent; l; l = l->next)
		bytes += l->bytes;
	return bytes;
}

void handouts_deinit(struct server *server)
{
	while (server->lent) {
		struct handouts *lent = server->lent;
		server->lent = lent->next;
		handouts_let_go(server, lent);
	}
}
