/* tickets_broken: counts the samples that are broken, and fails a stream that has too many of them.
 * Threads as in tickets.c. */
#include "stream/stream_impl.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>

enum { TICKETS_FEW = 2 };

const char *stream_reason_name(unsigned reason)
{
	return reason < FETCH_OUTCOMES
		       ? fetch_outcome_name((enum fetch_outcome)reason)
		       : decode_outcome_name((enum decode_outcome)(reason - FETCH_OUTCOMES));
}

uint64_t ticket_number(const struct stream_ticket *t)
{
	return concat_number(&t->stream->parts, (struct sampler_pick){t->part, t->item.number});
}

void tickets_fail(struct stream *stream, int code, const char *text)
{
	pthread_mutex_lock(&stream->lock);
	if (!stream->failed && !stream->cancelled) {
		stream->failed = code;
		(void)fault_set(&stream->fault, code, "%s", text);
	}
	pthread_mutex_unlock(&stream->lock);
}

/* Counts one more broken sample of this epoch against max_broken. Under the lock. Slots that are
 * being filled hold consecutive batches, so two of their epochs never share a count. */
static uint64_t tickets_count_broken(struct stream *stream, uint64_t epoch)
{
	unsigned i = (unsigned)(epoch % STREAM_BROKEN_EPOCHS);
	if (stream->broken_in[i].epoch != epoch || !stream->broken_in[i].count) {
		stream->broken_in[i].epoch = epoch;
		stream->broken_in[i].count = 0;
	}
	return ++stream->broken_in[i].count;
}

/* How many broken samples an epoch may have. A share of a small set is less than one sample, so one
 * broken image would end a first try. Therefore TICKETS_FEW are always allowed, but not more than
 * half of the epoch, and none where max_broken is 0. */
static double tickets_most_broken(const struct stream *stream)
{
	uint64_t few = UTIL_MIN(stream->sampler.length / 2, (uint64_t)TICKETS_FEW);
	double share = stream->spec.max_broken * (double)stream->sampler.length;
	return stream->spec.max_broken > 0 ? UTIL_MAX(share, (double)few) : 0;
}

/* Whether `count` broken samples in an epoch are more than max_broken allows. A rank sees only its
 * slice, which may by chance contain more than its share of them. So it takes more than three
 * standard deviations, and three samples, above the share. */
static bool tickets_too_many_broken(const struct stream *stream, uint64_t count)
{
	const struct stream_spec *spec = &stream->spec;
	double most = tickets_most_broken(stream);
	double share = most / spec->world_size, beyond = (double)count - share - 3;
	return (double)count > most ||
	       (spec->world_size > 1 && beyond > 0 && beyond * beyond > 9 * share);
}

/* A message with the path of the sample before it. Reads the index, so only for a stream that
 * ends. */
static const char *ticket_message(
	const struct stream_ticket *t, const char *message, char *buffer, size_t room)
{
	char path[4096];
	if (concat_path(&t->stream->parts, ticket_number(t), path, sizeof path, NULL) < 0)
		return message;
	(void)snprintf(buffer, room, "%s%s%s", path, message[0] ? ": " : "", message);
	return buffer;
}

bool ticket_note_broken(struct stream_ticket *t, unsigned reason, const char *message)
{
	struct stream *stream = t->stream;
	const struct stream_spec *spec = &stream->spec;
	const char *name = stream_reason_name(reason);
	pthread_mutex_lock(&stream->lock);
	stream->broken[reason]++;
	if (stream->kept_count < STREAM_BROKEN_KEPT) {
		struct stream_broken *kept = &stream->kept[stream->kept_count++];
		kept->sample = ticket_number(t);
		(void)snprintf(kept->reason, sizeof kept->reason, "%s%s%s", name,
			message[0] ? ": " : "", message);
	}
	uint64_t count = t->attempt ? 0 : tickets_count_broken(stream, t->epoch);
	pthread_mutex_unlock(&stream->lock);
	uint64_t samples = (stream->sampler.length + spec->world_size - 1) / spec->world_size;
	struct fault text;
	char named[4096 + 512];
	/* The sentence of a failed read has the path already. */
	if (reason >= FETCH_OUTCOMES &&
		(spec->on_broken == SPEC_BROKEN_FAIL || tickets_too_many_broken(stream, count)))
		message = ticket_message(t, message, named, sizeof named);
	if (spec->on_broken == SPEC_BROKEN_FAIL)
		(void)fault_set(&text, -EIO,
			"sample %llu is broken (%s%s%s) and on_broken is fail; mend or remove it, "
			"or set on_broken to substitute or mark",
			(unsigned long long)ticket_number(t), name, message[0] ? ": " : "",
			message);
	else if (tickets_too_many_broken(stream, count))
		(void)fault_set(&text, -EIO,
			"%llu of the %llu samples%s of epoch %llu %s broken, more than max_broken "
			"= %g allows; the latest is sample %llu (%s%s%s); `penstock check` lists "
			"them all; raise max_broken to go on without them",
			(unsigned long long)count, (unsigned long long)samples,
			spec->world_size > 1 ? " that this rank gets" : "",
			(unsigned long long)t->epoch, count == 1 ? "is" : "are", spec->max_broken,
			(unsigned long long)ticket_number(t), name, message[0] ? ": " : "",
			message);
	else
		return true;
	tickets_fail(stream, -EIO, text.text);
	return false;
}
