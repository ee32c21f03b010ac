/* report: what one run of `penstock bench` found, for people and as JSON (report_json.c). Main
 * thread. */
#pragma once

#include "client/cli/bench/accelerate.h"
#include "client/cli/bench/measure.h"

struct jsontext;
struct node;

/* Prints the run. `accelerate` is NULL if it had plain trainers. CLI_OK, or CLI_FAILED after saying
 * why. */
int report_print(const struct measure *measure, const struct accelerate *accelerate, bool as_json);
/* report_json.c */
int report_json(const struct measure *measure, const struct accelerate *accelerate);

/* Prints "  name           sentence" wrapped at 80 columns; nothing if the sentence is empty. */
void report_sentence(const char *name, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints the path or name with which a report begins, as a line of its own. */
void report_source(const char *source);

/* What people read for a stage: its key in the JSON, except that "checkpoints" are entry points. */
const char *report_stage_name(const char *key);

/* Writes "corrupt 3, truncated 1" for an object of counts, leaving out zeros, and returns the
 * sum. */
double report_counts_words(const struct node *counts, char *buffer, size_t room);

/* Writes the number, or null if it is not known. */
void report_json_known(
	struct jsontext *json, const char *key, bool known, double value, int decimals);
