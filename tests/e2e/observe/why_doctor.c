/* why_doctor: writes a flight recorder's file again with something else in it, for what cannot be
 * made to happen here.
 *
 *   why_doctor FILE NEW KEY=VALUE ...
 *       boot_id=TEXT host=TEXT     of its start
 *       without=KIND               leaves out the entries of that number; several may be given
 *       unknown=1                  no exit's status is known, as of kernels before 6.15 */
#include "record/ring.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct doctor {
	const char *boot_id, *host;
	bool without[RECORD_KINDS], unknown;
};

static bool doctor_option(struct doctor *d, const char *word)
{
	const char *value = strchr(word, '=');
	if (!value++)
		return false;
	unsigned long number = strtoul(value, NULL, 10);
	if (strncmp(word, "boot_id=", 8) == 0)
		d->boot_id = value;
	else if (strncmp(word, "host=", 5) == 0)
		d->host = value;
	else if (strncmp(word, "unknown=", 8) == 0)
		d->unknown = number != 0;
	else if (strncmp(word, "without=", 8) == 0 && number < RECORD_KINDS)
		d->without[number] = true;
	else
		return false;
	return true;
}

static void doctor_change(const struct doctor *d, struct record *record)
{
	struct record_start *start = &record->body.start;
	if (record->kind == RECORD_START && d->boot_id)
		(void)snprintf(start->boot_id, sizeof start->boot_id, "%s", d->boot_id);
	if (record->kind == RECORD_START && d->host)
		(void)snprintf(start->host, sizeof start->host, "%s", d->host);
	if (record->kind == RECORD_EXIT && d->unknown)
		record->body.exit.known = 0;
	if (record->kind == RECORD_EXIT && d->unknown)
		record->body.exit.status = 0;
	record->bytes = sizeof record->body;
}

static int doctor_fail(const struct fault *fault)
{
	(void)fprintf(stderr, "why_doctor: %s\n", fault->text);
	return 1;
}

int main(int argc, char **argv)
{
	struct doctor d = {0};
	struct fault fault = {{0}};
	struct record *records;
	struct ring *ring;
	size_t count;
	bool good = argc >= 3;
	for (int i = 3; i < argc; i++)
		good &= doctor_option(&d, argv[i]);
	if (!good) {
		(void)fprintf(stderr, "why_doctor: see the top of why_doctor.c\n");
		return 2;
	}
	if (ring_read(argv[1], &records, &count, &fault) < 0 ||
		ring_create(argv[2], 4 * RING_LEAST, &ring, &fault) < 0)
		return doctor_fail(&fault);
	int result = 0;
	for (size_t i = 0; i < count && result == 0; i++) {
		if (records[i].kind < RECORD_KINDS && d.without[records[i].kind])
			continue;
		doctor_change(&d, &records[i]);
		result = ring_append(ring, &records[i]);
	}
	ring_free(ring);
	free(records);
	return result ? 1 : 0;
}
