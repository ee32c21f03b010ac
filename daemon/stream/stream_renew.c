/* stream_renew: images of a folder that were rewritten in place (see stream.h, stream_renewal).
 *
 * The stream keeps the datasets that it was opened with: they name samples and classes, and their
 * fingerprint is the one that trainers know. Only the bytes are read through the entry that follows
 * (`through`), whose names and labels are the same. The entry before it is retired, and closed
 * before the next renewal, when no ticket uses it any more.
 *
 * stream_renew runs on a thread of its own; everything else on the event loop. */
#include "stream/stream_impl.h"

#include "base/clock.h"
#include "base/host/roots.h"
#include "remote/interrupt.h"

#include <errno.h>
#include <inttypes.h>

uint64_t stream_fingerprint(const struct stream *stream)
{
	return concat_fingerprint(&stream->parts);
}

bool stream_was(const struct stream *stream, uint64_t fingerprint)
{
	return concat_was(&stream->parts, fingerprint);
}

int stream_part_source(
	const struct stream *stream, uint32_t part, char path[SPEC_TEXT], struct fault *fault)
{
	const struct sampling *sampling = &stream->spec.sampling;
	const char *source = sampling->sources.count ? sampling_source(&sampling->sources, part)
						     : stream->spec.source;
	struct split split = {0};
	int result = sampling->split[0] ? split_parse(sampling->split, &split, fault) : 0;
	return result ? result : split_source(&split, source, path, SPEC_TEXT, fault);
}

struct dataset_options stream_dataset_options(
	const struct stream *stream, progress_fn *progress, void *context)
{
	return (struct dataset_options){.cache_dir = stream->environment->cache_dir,
		.index_in_cache = roots_apply(),
		.rule = &stream->spec.labels,
		.fields = &stream->spec.fields,
		.columns = &stream->spec.columns,
		.class_order = stream->spec.class_order,
		.nested = stream->spec.nested,
		.progress = progress,
		.progress_context = context};
}

bool stream_wants_renewal(struct stream *stream, struct stream_renewal *ret)
{
	int part = stream->renewing ? -1 : tickets_parked(stream);
	if (part < 0)
		return false;
	*ret = (struct stream_renewal){.part = (uint32_t)part};
	stream->renewing = true;
	return true;
}

/* A stream that nobody reads any more does not wait for its index. */
static int renew_progress(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	const struct stream *stream = context;
	(void)samples, (void)bytes, (void)total;
	return stream->cancelled;
}

void stream_renew(struct stream *stream, struct stream_renewal *renewal)
{
	const struct stream_environment *environment = stream->environment;
	const uint32_t part = renewal->part;
	struct dataset_options options = stream_dataset_options(stream, renew_progress, stream);
	char path[SPEC_TEXT];
	uint64_t began = clock_ns();
	const atomic_bool *before = interrupt_set(&stream->cancelled);
	renewal->after_ns = began + SHELF_PAUSE_NS; /* where the shelf is not asked */
	/* Rows may be made for long, where storage hangs: then nothing is renewed. */
	if (stream->retired[part] && tickets_use(stream, stream->retired[part])) {
		renewal->result = -EBUSY;
		(void)interrupt_set(before);
		return;
	}
	shelf_close(environment->shelf, stream->retired[part]);
	stream->retired[part] = NULL;
	renewal->result = stream_part_source(stream, part, path, &renewal->fault);
	if (!renewal->result)
		renewal->result = shelf_renew(environment->shelf, stream->through[part], path,
			&options, &renewal->fresh, &renewal->after_ns, &renewal->made,
			&renewal->fault);
	renewal->took_ns = clock_ns() - began;
	(void)interrupt_set(before);
}

void stream_renewed(struct stream *stream, struct stream_renewal *renewal)
{
	const uint32_t part = renewal->part;
	stream->renewing = false;
	pthread_mutex_lock(&stream->lock);
	stream->renew_after_ns[part] = renewal->after_ns;
	if (renewal->fresh) {
		if (stream->through[part] != stream->shared[part])
			stream->retired[part] = stream->through[part];
		stream->through[part] = renewal->fresh;
	}
	if (renewal->result == -ESTALE && !stream->failed && !stream->cancelled) {
		stream->failed = -ESTALE;
		stream->fault = renewal->fault;
	}
	pthread_mutex_unlock(&stream->lock);
	tickets_unpark(stream, (int)part);
}

void stream_renew_deinit(struct stream *stream)
{
	for (uint32_t i = 0; i < stream->parts.count; i++) {
		shelf_close(stream->environment->shelf, stream->retired[i]);
		if (stream->through[i] != stream->shared[i])
			shelf_close(stream->environment->shelf, stream->through[i]);
	}
}
