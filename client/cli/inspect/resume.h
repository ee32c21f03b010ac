/* resume: a state as a person names it: read, put into words, compared with the stream that is to
 * go on from it. For `state` and `plan`. Main thread.
 *
 * A state holds its order and its rows as hashes. There are few enough of either to try them all,
 * so that a refusal can say "shuffled" and "training, 224 px" instead of sixteen digits. */
#pragma once

#include "dataset/dataset.h"
#include "definition/spec.h"
#include "order/order.h"

#include <stdbool.h>
#include <stdint.h>

struct jsontext;

/* Reads `named`: a file, `-` for standard input, or the text itself, which begins with a brace.
 * CLI_OK, or the exit code after saying why. */
int resume_read(const char *named, struct spec_state *ret_state);

struct resume_meaning {
	bool order_known, shuffle; /* of the samples that were tried: */
	bool subset, sampled; /* `indices`; weights, epoch_length, repeats or split */
	bool rows_known;
	struct pixel_recipe rows;
};
/* `here`: a stream whose samples it may have been taken of; NULL: none is known. */
void resume_recognise(const struct spec_state *state, const struct stream_spec *here,
	struct resume_meaning *ret_meaning);

/* "shuffled, of the subset, seed 7"; "training, 224 px, decoded fast, bicubic". 80 bytes suffice.
 */
void resume_order_text(const struct spec_state *state, const struct resume_meaning *meaning,
	char *buffer, size_t room);
void resume_rows_text(const struct pixel_recipe *rows, char *buffer, size_t room);

/* Where a stream whose epochs are cut so goes on. */
struct resume_place {
	uint64_t epoch, position;
	uint64_t batch; /* its number; those of the epoch count from position 0 */
	bool aligned; /* a batch of an epoch read from its beginning begins there too */
	bool turned; /* no batch was left of the state's epoch: this is the next one's first */
};

/* `epoch->samples` 0: the dataset is not known, and nobody can tell where it ends. Otherwise an
 * epoch has at least one batch. */
struct resume_place resume_place(const struct spec_state *state, const struct order_epoch *epoch);

struct resume_difference {
	const char *what; /* "dataset", "seed", "order", "position", "rows" */
	char state[80], here[256];
	char advice[256];
	bool refused; /* false: worth a word only */
};

enum { RESUME_DIFFERENCES = 5 };

/* What keeps a stream of this definition from going on from the state, the dataset first. Returns
 * how many. */
unsigned resume_compare(const struct spec_state *state, const struct stream_spec *spec,
	uint64_t fingerprint, uint64_t samples, struct resume_difference ret[RESUME_DIFFERENCES]);

/* Whether one of them is a refusal. */
bool resume_refused(const struct resume_difference *difference, unsigned count);

/* One difference as a sentence, without a point: for stderr and for people. */
void resume_sentence(const struct resume_difference *difference, char *buffer, size_t room);

/* "differs": [...] into an open object. */
void resume_json(struct jsontext *json, const struct resume_difference *difference, unsigned count);
