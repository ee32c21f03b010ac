/* ledger: see ledger.h. */
#include "base/host/ledger.h"

#include "base/size.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void ledger_init(struct ledger *ledger, uint64_t budget_bytes)
{
	memset(ledger, 0, sizeof *ledger);
	ledger->budget = budget_bytes;
	pthread_mutex_init(&ledger->lock, NULL);
}

void ledger_deinit(struct ledger *ledger)
{
	pthread_mutex_destroy(&ledger->lock);
}

static int ledger_refuse(
	const struct ledger *ledger, uint64_t bytes, const char *name, struct fault *fault)
{
	char want[16], left[16], all[16], line[16];
	char held[512] = "nothing is reserved";
	size_t n = 0;
	for (int i = 0; i < LEDGER_LINES - 1 && n < sizeof held; i++)
		if (ledger->line[i].name[0])
			n += (size_t)snprintf(held + n, sizeof held - n, "%s%s %s", n ? ", " : "",
				ledger->line[i].name,
				size_format(ledger->line[i].bytes, line, sizeof line));
	return fault_set(fault, -ENOMEM,
		"%s needs %s, but %s of the memory budget of %s is free (%s)", name,
		size_format(bytes, want, sizeof want),
		size_format(ledger->budget - ledger->reserved, left, sizeof left),
		size_format(ledger->budget, all, sizeof all), held);
}

static uint64_t ledger_excess_locked(const struct ledger *ledger)
{
	uint64_t room = ledger->budget - ledger->reserved;
	return ledger->borrowed > room ? ledger->borrowed - room : 0;
}

uint64_t ledger_excess(struct ledger *ledger)
{
	pthread_mutex_lock(&ledger->lock);
	uint64_t bytes = ledger_excess_locked(ledger);
	pthread_mutex_unlock(&ledger->lock);
	return bytes;
}

/* Asks the borrower to return what a new line needs. The line is already reserved, so nobody can
 * borrow that memory again. */
static int ledger_call(struct ledger *ledger, int line, struct fault *fault)
{
	/* Once the borrower has returned enough, a new excess comes from a later reservation, whose
	 * thread asks for it. */
	if (ledger->call(ledger->context))
		return 0;
	char size[16];
	int result = fault_set(fault, -ENOMEM,
		"%s needs memory, and the %s has not yet returned %s of it: try again",
		ledger->line[line].name, ledger->borrower,
		size_format(ledger_excess(ledger), size, sizeof size));
	ledger_release(ledger, line);
	return result;
}

int ledger_reserve(
	struct ledger *ledger, uint64_t bytes, const char *name, int *ret_line, struct fault *fault)
{
	int result = 0, line = 0;
	assert(name[0]); /* an empty name marks a free line */
	pthread_mutex_lock(&ledger->lock);
	while (line < LEDGER_LINES - 1 && ledger->line[line].name[0])
		line++;
	if (line == LEDGER_LINES - 1)
		result = fault_set(fault, -ENOMEM,
			"%s: the memory ledger already has %d entries; close a stream first", name,
			LEDGER_LINES - 1);
	else if (bytes > ledger->budget - ledger->reserved)
		result = ledger_refuse(ledger, bytes, name, fault);
	if (!result) {
		(void)snprintf(ledger->line[line].name, LEDGER_NAME, "%s", name);
		ledger->line[line].bytes = bytes;
		ledger->reserved += bytes;
	}
	bool lacks = !result && ledger_excess_locked(ledger) > 0;
	pthread_mutex_unlock(&ledger->lock);
	if (lacks)
		result = ledger_call(ledger, line, fault);
	if (!result)
		*ret_line = line;
	return result;
}

void ledger_release(struct ledger *ledger, int line)
{
	pthread_mutex_lock(&ledger->lock);
	assert(line >= 0 && line < LEDGER_LINES - 1 && ledger->line[line].name[0]);
	ledger->reserved -= ledger->line[line].bytes;
	ledger->line[line] = (struct ledger_line){0};
	pthread_mutex_unlock(&ledger->lock);
}

uint64_t ledger_free(struct ledger *ledger)
{
	pthread_mutex_lock(&ledger->lock);
	uint64_t bytes = ledger->budget - ledger->reserved;
	pthread_mutex_unlock(&ledger->lock);
	return bytes;
}

void ledger_set_borrower(
	struct ledger *ledger, const char *name, bool (*call)(void *context), void *context)
{
	pthread_mutex_lock(&ledger->lock);
	assert(ledger->borrowed == 0);
	ledger->borrower = name;
	ledger->call = call;
	ledger->context = context;
	pthread_mutex_unlock(&ledger->lock);
}

bool ledger_borrow(struct ledger *ledger, uint64_t bytes)
{
	pthread_mutex_lock(&ledger->lock);
	uint64_t room = ledger->budget - ledger->reserved;
	bool fits = ledger->borrowed <= room && bytes <= room - ledger->borrowed;
	if (fits)
		ledger->borrowed += bytes;
	pthread_mutex_unlock(&ledger->lock);
	return fits;
}

void ledger_return(struct ledger *ledger, uint64_t bytes)
{
	pthread_mutex_lock(&ledger->lock);
	assert(bytes <= ledger->borrowed);
	ledger->borrowed -= bytes;
	pthread_mutex_unlock(&ledger->lock);
}

int ledger_snapshot(struct ledger *ledger, struct ledger_line ret[LEDGER_LINES])
{
	int n = 0;
	pthread_mutex_lock(&ledger->lock);
	for (int i = 0; i < LEDGER_LINES - 1; i++)
		if (ledger->line[i].name[0])
			ret[n++] = ledger->line[i];
	if (ledger->borrowed) {
		ret[n].bytes = ledger->borrowed;
		(void)snprintf(ret[n++].name, LEDGER_NAME, "%s", ledger->borrower);
	}
	pthread_mutex_unlock(&ledger->lock);
	return n;
}
