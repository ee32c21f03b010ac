/* resume: see resume.h. */
#include "client/cli/inspect/resume.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A state has about 200 bytes. */
enum { RESUME_TEXT_MAX = 64 << 10 };

/* ---- reading ---- */

/* Reads to the end, because a pipe reports no size. The exit code, or CLI_OK. */
static int resume_drain(int fd, const char *name, char *text, size_t *ret_size)
{
	size_t size = 0;
	for (;;) {
		ssize_t n = read(fd, text + size, RESUME_TEXT_MAX + 1 - size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cli_fail(cli_exit_code(errno == EISDIR ? -EINVAL : -errno),
				"cannot read %s: %s", name, strerror(errno));
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > RESUME_TEXT_MAX)
			return cli_fail(CLI_FAILED,
				"%s has more than %d KiB, so it is not a state: a state is one "
				"line of "
				"about 200 bytes; if a checkpoint contains it, write it to a file "
				"of its "
				"own",
				name, RESUME_TEXT_MAX >> 10);
	}
	*ret_size = size;
	return CLI_OK;
}

static int resume_file(const char *named, char *text, size_t *ret_size)
{
	if (strcmp(named, "-") == 0)
		return resume_drain(STDIN_FILENO, "standard input", text, ret_size);
	cleanup(close_fd) int fd = open(named, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cli_fail(cli_exit_code(-errno),
			"cannot read %s: %s; name a state by a file, by - for standard input, or "
			"by its text in quotes: '{\"version\":1,...}'",
			named, strerror(errno));
	return resume_drain(fd, named, text, ret_size);
}

static int resume_parse(
	const char *text, size_t size, const char *origin, struct spec_state *ret_state)
{
	struct fault fault = {{0}};
	int r = spec_state_parse_kept(text, size, origin, ret_state, &fault);
	if (r < 0)
		return cli_fail(CLI_FAILED,
			"%s: resume from an earlier state, or start without one", fault.text);
	return CLI_OK;
}

int resume_read(const char *named, struct spec_state *ret_state)
{
	const char *begin = named + strspn(named, " \t\r\n");
	if (*begin == '{')
		return resume_parse(named, strlen(named), "the state", ret_state);
	cleanup(free_ptr) char *text = malloc(RESUME_TEXT_MAX + 1);
	size_t size = 0;
	if (!text)
		return cli_fail(CLI_FAILED, "not enough memory for a state");
	int code = resume_file(named, text, &size);
	bool piped = strcmp(named, "-") == 0;
	return code == CLI_OK
		       ? resume_parse(text, size, piped ? "standard input" : named, ret_state)
		       : code;
}

/* ---- meaning ---- */

static bool resume_is_sampled(const struct stream_spec *spec)
{
	return sampling_hash(&spec->sampling, 0) != 0;
}

static void resume_recognise_order(const struct spec_state *state, const struct stream_spec *here,
	struct resume_meaning *meaning)
{
	struct stream_spec spec;
	spec_init(&spec);
	if (here)
		spec = *here;
	spec.seed = state->seed;
	meaning->subset = spec.subset.count;
	meaning->sampled = resume_is_sampled(&spec);
	static const enum shuffle shuffles[] = {SHUFFLE_NONE, SHUFFLE_FULL};
	for (size_t i = 0; i < UTIL_COUNT(shuffles) && !meaning->order_known; i++) {
		spec.shuffle = shuffles[i];
		meaning->order_known = spec_order_hash(&spec) == state->order;
		meaning->shuffle = shuffles[i];
	}
	if (!meaning->order_known && spec_find_blocks(&spec, state->order, &meaning->window)) {
		meaning->order_known = true;
		meaning->shuffle = SHUFFLE_BLOCKS;
	}
}

/* Tries every square for one kind, decoder and filter. */
static bool resume_recognise_size(const struct spec_state *state, struct stream_spec *spec)
{
	for (uint32_t side = 1; side <= SHAPE_SIDE_MAX; side++) {
		spec->image_size = pixel_square(side);
		if (spec_transform_hash(spec) == state->transform)
			return true;
	}
	return false;
}

static void resume_recognise_rows(const struct spec_state *state, struct resume_meaning *meaning)
{
	struct stream_spec spec;
	spec_init(&spec);
	for (int i = 0; i < 2 * 2 * (WEIGHTS_RANDOM + 1) && !meaning->rows_known; i++) {
		spec.train = i & 1;
		spec.decode = i & 2 ? SPEC_DECODE_FAST : SPEC_DECODE_EXACT;
		spec.interpolation = (enum weights_filter)(i / 4);
		meaning->rows_known = resume_recognise_size(state, &spec);
	}
	meaning->rows = spec_pixels(&spec, 0);
}

void resume_recognise(const struct spec_state *state, const struct stream_spec *here,
	struct resume_meaning *ret_meaning)
{
	*ret_meaning = (struct resume_meaning){.order_known = false};
	resume_recognise_order(state, here, ret_meaning);
	if (!ret_meaning->order_known)
		resume_recognise_order(state, NULL, ret_meaning);
	resume_recognise_rows(state, ret_meaning);
}

/* "shuffled, of the subset, sampled as asked": the combination that fits. */
static void resume_order_name(
	enum shuffle shuffle, uint32_t window, bool subset, bool sampled, char *buffer, size_t room)
{
	char order[SHUFFLE_TEXT];
	(void)snprintf(buffer, room, "%s%s%s", shuffle_text(shuffle, window, order, sizeof order),
		subset ? ", of the subset" : "", sampled ? ", sampled as asked" : "");
}

void resume_order_text(const struct spec_state *state, const struct resume_meaning *meaning,
	char *buffer, size_t room)
{
	char name[96];
	resume_order_name(meaning->shuffle, meaning->window, meaning->subset, meaning->sampled,
		name, sizeof name);
	if (meaning->order_known)
		(void)snprintf(buffer, room, "%s, seed %" PRIu64, name, state->seed);
	else
		(void)snprintf(buffer, room, "unknown (%016" PRIx64 "), seed %" PRIu64,
			state->order, state->seed);
}

void resume_rows_text(const struct pixel_recipe *rows, char *buffer, size_t room)
{
	bool bilinear = rows->filter == WEIGHTS_BILINEAR;
	char size[SHAPE_SIZE_TEXT];
	(void)snprintf(buffer, room, "%s, %s px%s%s%s",
		rows->kind == PIXEL_RESIZED_CROP ? "training" : "evaluation",
		shape_size_text(rows->size, size), rows->fast ? ", decoded fast" : "",
		bilinear ? "" : ", ", bilinear ? "" : weights_filter_names[rows->filter]);
}

struct resume_place resume_place(const struct spec_state *state, const struct order_epoch *epoch)
{
	uint64_t global = (uint64_t)epoch->batch_size * epoch->world_size;
	struct resume_place place = {.epoch = state->epoch, .position = state->position};
	bool full;
	if (epoch->samples && course_resume(epoch, state->epoch, state->position, &state->cuts,
				      &place.course, &full)) {
		place.epoch = place.course.start_epoch;
		place.position = place.course.start_position;
		place.turned = place.epoch != state->epoch;
	}
	place.batch = place.position / global;
	place.aligned = place.position % global == 0;
	if (epoch->samples && epoch->buckets) {
		place.batch = course_batch(&place.course, 0, 0).batch;
		place.aligned = place.course.cuts.count == 1;
	}
	return place;
}

/* ---- comparing ---- */

__attribute__((format(printf, 2, 3))) static void resume_advise(
	struct resume_difference *difference, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(difference->advice, sizeof difference->advice, format, args);
	va_end(args);
}

static void resume_differs_dataset(
	const struct spec_state *state, uint64_t here, struct resume_difference *ret)
{
	*ret = (struct resume_difference){.what = "dataset", .refused = true};
	(void)snprintf(ret->state, sizeof ret->state, "%016" PRIx64, state->fingerprint);
	(void)snprintf(ret->here, sizeof ret->here, "%016" PRIx64, here);
	resume_advise(ret,
		"samples were added, removed, renamed, relabeled or resized since, or this is "
		"another source; name the source that the state was taken from, or start without "
		"the state");
}

static bool resume_differs_seed(const struct spec_state *state, const struct stream_spec *spec,
	struct resume_difference *ret)
{
	*ret = (struct resume_difference){.what = "seed", .refused = true};
	(void)snprintf(ret->state, sizeof ret->state, "%" PRIu64, state->seed);
	(void)snprintf(ret->here, sizeof ret->here, "%" PRIu64, spec->seed);
	resume_advise(ret, "open the stream with seed %" PRIu64, state->seed);
	return state->seed != spec->seed;
}

/* Compares the blocks and the window of a state that was taken with `shuffle: blocks`. */
static bool resume_differs_blocks(const struct spec_state *state,
	const struct resume_meaning *meaning, const struct stream_spec *spec,
	struct resume_difference *ret)
{
	struct stream_spec same = *spec;
	same.seed = state->seed;
	if (spec_order_hash(&same) == state->order)
		return false;
	if (spec->shuffle == SHUFFLE_BLOCKS && spec->window == meaning->window)
		resume_advise(ret,
			"the blocks had another number of samples: images were rewritten in "
			"another size since, or the samples are others");
	else
		resume_advise(ret, "open the stream with shuffle blocks and window %" PRIu32,
			meaning->window);
	return true;
}

/* The hash of the order covers the seed, which is compared separately. */
static bool resume_differs_order(const struct spec_state *state,
	const struct resume_meaning *meaning, const struct stream_spec *spec,
	struct resume_difference *ret)
{
	*ret = (struct resume_difference){.what = "order", .refused = true};
	if (spec->buckets.count && state->order == spec_order_hash(spec))
		return false;
	bool subset = spec->subset.count, sampled = resume_is_sampled(spec);
	resume_order_name(
		spec->shuffle, spec->window, subset, sampled, ret->here, sizeof ret->here);
	if (meaning->order_known) {
		resume_order_name(meaning->shuffle, meaning->window, meaning->subset,
			meaning->sampled, ret->state, sizeof ret->state);
		if (meaning->shuffle == SHUFFLE_BLOCKS)
			return resume_differs_blocks(state, meaning, spec, ret);
		resume_advise(ret, "open the stream with shuffle %s%s%s",
			meaning->shuffle ? "on" : "off",
			subset && !meaning->subset ? ", and without indices" : "",
			sampled && !meaning->sampled
				? ", and without weights, epoch_length, repeats, split and "
				  "sampling"
				: "");
		return meaning->shuffle != spec->shuffle || meaning->subset != subset ||
		       meaning->sampled != sampled;
	}
	(void)snprintf(ret->state, sizeof ret->state, "unknown (%016" PRIx64 ")", state->order);
	resume_advise(ret,
		"it was taken with %s subset (indices) or other weights, epoch_length, repeats, "
		"split, sampling or sources, or was edited, or another release wrote it",
		subset ? "another" : "a");
	return true;
}

/* With buckets: whether no epoch has a batch there, cut as the state says. */
static bool resume_differs_cuts(const struct spec_state *state, const struct order_epoch *epoch,
	struct resume_difference *ret)
{
	struct course course;
	bool full;
	if (course_resume(epoch, state->epoch, state->position, &state->cuts, &course, &full))
		return false;
	(void)snprintf(ret->here, sizeof ret->here, "a batch of these buckets");
	if (full)
		resume_advise(ret,
			"its epoch was continued with another global batch %d times, and a state "
			"holds no more: go on with a global batch of %" PRIu64,
			BUCKETS_CUTS - 1, state->cuts.at[BUCKETS_CUTS - 1].global);
	else
		resume_advise(ret,
			"no epoch has a batch there with the cuts of the state: it was edited");
	return true;
}

static bool resume_differs_position(const struct spec_state *state, const struct stream_spec *spec,
	const struct order_epoch *epoch, struct resume_difference *ret)
{
	const uint64_t block = sampling_block(&spec->sampling), samples = epoch->samples;
	*ret = (struct resume_difference){.what = "position", .refused = true};
	(void)snprintf(ret->state, sizeof ret->state, "%" PRIu64, state->position);
	(void)snprintf(ret->here, sizeof ret->here, "%" PRIu64 " at most", samples);
	resume_advise(ret, "an epoch has no such position: the state has been edited");
	if (epoch->buckets)
		return resume_differs_cuts(state, epoch, ret);
	return state->position > samples || state->position % block || state->cuts.count;
}

static bool resume_differs_rows(const struct spec_state *state,
	const struct resume_meaning *meaning, const struct stream_spec *spec,
	struct resume_difference *ret)
{
	const struct pixel_recipe here = spec_pixels(spec, 0);
	*ret = (struct resume_difference){.what = "rows", .refused = false};
	if (meaning->rows_known)
		resume_rows_text(&meaning->rows, ret->state, sizeof ret->state);
	else
		(void)snprintf(ret->state, sizeof ret->state, "unknown (%016" PRIx64 ")",
			state->transform);
	resume_rows_text(&here, ret->here, sizeof ret->here);
	if (spec->views.groups)
		views_text(&spec->views, ret->here, sizeof ret->here);
	else if (spec->transforms.count)
		transforms_text(&spec->transforms, ret->here, sizeof ret->here);
	resume_advise(ret, "allowed: the same samples, other pixels");
	return state->transform != spec_transform_hash(spec);
}

unsigned resume_compare(const struct spec_state *state, const struct stream_spec *spec,
	const struct concat *parts, const struct order_epoch *epoch,
	struct resume_difference ret[RESUME_DIFFERENCES])
{
	/* Also where images were rewritten since: the samples are the same. */
	bool fits = concat_was(parts, state->fingerprint);
	struct resume_meaning meaning;
	unsigned n = 0;
	resume_recognise(state, spec, &meaning);
	if (!fits)
		resume_differs_dataset(state, concat_fingerprint(parts), &ret[n++]);
	n += resume_differs_seed(state, spec, &ret[n]);
	n += resume_differs_order(state, &meaning, spec, &ret[n]);
	/* For another dataset the position means nothing. */
	if (fits)
		n += resume_differs_position(state, spec, epoch, &ret[n]);
	n += resume_differs_rows(state, &meaning, spec, &ret[n]);
	return n;
}

bool resume_refused(const struct resume_difference *difference, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (difference[i].refused)
			return true;
	return false;
}

void resume_sentence(const struct resume_difference *difference, char *buffer, size_t room)
{
	(void)snprintf(buffer, room, "%s in the state; %s here: %s", difference->state,
		difference->here, difference->advice);
}

void resume_json(struct jsontext *json, const struct resume_difference *difference, unsigned count)
{
	jsontext_array(json, "differs");
	for (unsigned i = 0; i < count; i++) {
		jsontext_object(json, NULL);
		jsontext_string(json, "what", difference[i].what);
		jsontext_string(json, "state", difference[i].state);
		jsontext_string(json, "here", difference[i].here);
		jsontext_bool(json, "refused", difference[i].refused);
		jsontext_string(json, "advice", difference[i].advice);
		jsontext_end(json);
	}
	jsontext_end(json);
}
