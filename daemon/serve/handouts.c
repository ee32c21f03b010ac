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

struct lent {
	struct lent *next;
	struct peer *peer;
	enum peer_kind kind;
	struct loan loan;
	int line; /* of the ledger */
	uint64_t bytes, since_ns;
	bool told;
};

void lent_keep(struct server *server, struct peer *peer, enum peer_kind kind, struct loan loan,
	int line, uint64_t bytes)
{
	struct lent *lent = malloc(sizeof *lent);
	if (!lent) {
		/* It counts no more, which is all that can be done. */
		loan_deinit(&loan);
		ledger_release(&server->ledger, line);
		peer_discharge(&server->peers, peer, kind);
		return;
	}
	*lent = (struct lent){.next = server->lent,
		.peer = peer,
		.kind = kind,
		.loan = loan,
		.line = line,
		.bytes = bytes,
		.since_ns = clock_ns()};
	server->lent = lent;
}

static void lent_let_go(struct server *server, struct lent *lent)
{
	loan_deinit(&lent->loan);
	ledger_release(&server->ledger, lent->line);
	peer_discharge(&server->peers, lent->peer, lent->kind);
	free(lent);
}

/* Once, of what seems to have been forgotten: views that are still referred to, a leak. */
static void lent_tell(struct lent *lent)
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

void lent_sweep(struct server *server)
{
	if (server->lent)
		loan_look();
	for (struct lent **place = &server->lent; *place;) {
		struct lent *lent = *place;
		if (loan_is_held(&lent->loan)) {
			lent_tell(lent);
			place = &lent->next;
			continue;
		}
		*place = lent->next;
		lent_let_go(server, lent);
	}
}

bool lent_returns(const struct server *server)
{
	uint64_t now = server->lent ? clock_ns() : 0;
	for (const struct lent *l = server->lent; l; l = l->next)
		if (l->kind == PEER_KEPT && now - l->since_ns < LENT_YOUNG_NS)
			return true;
	return false;
}

int lent_timeout_ms(const struct server *server, int timeout_ms)
{
	if (!lent_returns(server) || (timeout_ms >= 0 && timeout_ms < LENT_LOOK_MS))
		return timeout_ms;
	return LENT_LOOK_MS;
}

uint64_t lent_bytes(const struct server *server)
{
	uint64_t bytes = 0;
	for (const struct lent *l = server->lent; l; l = l->next)
		bytes += l->bytes;
	return bytes;
}

void lent_deinit(struct server *server)
{
	while (server->lent) {
		struct lent *lent = server->lent;
		server->lent = lent->next;
		lent_let_go(server, lent);
	}
}
