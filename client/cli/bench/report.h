/* report: what a run of `penstock bench` found, for people and as JSON
 * (report_json.c). Main thread. */
#pragma once

#include "client/cli/bench/accelerate.h"
#include "client/cli/bench/measure.h"

/* `accelerate` is NULL where there were plain trainers. */
void report_people(const struct measure *measure, const struct accelerate *accelerate);

/* 0, or -ENOMEM. */
int report_json(const struct measure *measure, const struct accelerate *accelerate);
