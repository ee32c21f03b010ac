/* report: what a run of `penstock bench` found, for people and as JSON
 * (report_json.c). Main thread. */
#pragma once

#include "client/cli/measure.h"

void report_people(const struct measure *measure);

/* 0, or -ENOMEM. */
int report_json(const struct measure *measure);
