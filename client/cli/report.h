/* report: what `penstock bench` found, for people and as JSON. Main thread. */
#pragma once

#include "client/cli/recipe.h"
#include "client/cli/trainer.h"

#include <stdbool.h>
#include <stdint.h>

struct node;

/* Names in the daemon's statistics: `stages`, and what `decode` of them is made of. */
enum { REPORT_STAGES = 4, REPORT_DECODE_STAGES = 8 };
extern const char *const report_stage[REPORT_STAGES];
extern const char *const report_decode_stage[REPORT_DECODE_STAGES];

struct report {
	const char *source;
	char dataset[96]; /* "500 samples, 56.1 MiB, flat folder"; "" for a stream of the running
			     daemon */
	char recipe[96];
	uint64_t batch_size, image_size; /* as the daemon opened it */
	unsigned trainers;
	const char *share; /* "all", "split", "private" */
	double images_per_s, images, seconds; /* average per trainer */
	double trainer_images_per_s[TRAINER_MAX];
	double images_made; /* by the daemon, for all trainers */
	double first_batch_s, batch_p50_s, batch_p99_s, cpu_s;
	uint64_t announced; /* batches that a trainer was waiting for; 0: nothing is known of */
	double announce_p50_us, announce_p99_us;
	bool cpu_known, memory_known, bytes_known; /* false where the daemon is another user's, or
						      where its pid is not known here */
	uint64_t peak_memory, budget, bytes_read; /* budget 0: the daemon's default */
	/* CPU seconds in the window. */
	double stage_s[REPORT_STAGES], decode_stage_s[REPORT_DECODE_STAGES];
	struct node *stats; /* the daemon's, at the end of the window: threads, reader, io,
				     fallbacks, broken, verdict */
};

void report_people(const struct report *report);

/* 0, or -ENOMEM. */
int report_json(const struct report *report);
