/* resume: reads a state that a user names, describes it, and compares it with the stream that
 * should resume from it. For `state` and `plan`. Main thread.
 *
 * A state holds hashes of its order and its rows. There are few enough of either to try them
 * all, so that a refusal can say "shuffled" and "training, 224 px" instead of sixteen digits. */
#pragma once

#include "dataset/concat.h"
#include "dataset/dataset.h"
#include "definition/spec.h"
#include "order/course.h"

#include <stdbool.h>
#include <stdint.h>

struct jsontext;

/* Reads `named`: a file, `-` for standard input, or the text itself, which begins with a brace.
 * CLI_OK, or the exit code after printing the reason. */
int resume_read(const char *named, struct spec_state *ret_state);

struct resume_meaning {
	bool order_known;
	enum shuffle shuffle;
	uint32_t window; /* with SHUFFLE_BLOCKS */
	/* about the samples that were tried: */
	bool subset, sampled; /* `indices`; weights, epoch_length, repeats, split or sampling */
	bool rows_known;
	struct pixel_recipe rows;
};
/* `here`: a stream of whose samples the state may be; NULL: none is known. */
void resume_recognise(const struct spec_state *state, const struct stream_spec *here,
	struct resume_meaning *ret_meaning);

/* "shuffled, of the subset, seed 7"; "training, 224 px, decoded fast, bicubic". 80 bytes suffice.
 */
void resume_order_text(const struct spec_state *state, const struct resume_meaning *meaning,
	char *buffer, size_t room);
void resume_rows_text(const struct pixel_recipe *rows, char *buffer, size_t room);

/* Where a stream with this division of epochs resumes. */
struct resume_place {
	uint64_t epoch, position;
	uint64_t batch; /* its number; batches of an epoch count from position 0 */
	bool aligned; /* also the beginning of a batch in an epoch that is read from its start */
	/* The state's epoch had no batch left: this is the first batch of the next epoch. */
	bool turned;
	struct course course; /* from there; not set if the dataset is unknown */
};

/* `epoch->samples` 0: the dataset is unknown, so its end is unknown. Otherwise an epoch has at
 * least one batch. */
struct resume_place resume_place(const struct spec_state *state, const struct order_epoch *epoch);

struct resume_difference {
	const char *what; /* "dataset", "seed", "order", "position", "rows" */
	char state[80], here[256];
	char advice[256];
	bool refused; /* false: a note only */
};

enum { RESUME_DIFFERENCES = 5 };

/* Finds what differs between a stream of this definition and the state, the dataset first.
 * Returns the number of differences. */
unsigned resume_compare(const struct spec_state *state, const struct stream_spec *spec,
	const struct concat *parts, const struct order_epoch *epoch,
	struct resume_difference ret[RESUME_DIFFERENCES]);

/* Whether a difference prevents resuming. */
bool resume_refused(const struct resume_difference *difference, unsigned count);

/* One difference as a sentence without a period, for people. */
void resume_sentence(const struct resume_difference *difference, char *buffer, size_t room);

/* Adds "differs": [...] to an open object. */
void resume_json(struct jsontext *json, const struct resume_difference *difference, unsigned count);
