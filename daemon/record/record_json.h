/* record_json: parts of records as JSON, for the daemon's status, `penstock why` and tests. */
#pragma once

#include "proto/jsontext.h"
#include "record/record.h"

/* UINT64_MAX or a negative share becomes null: not known. */
void record_json_known(struct jsontext *json, const char *key, uint64_t value);
void record_json_share(struct jsontext *json, const char *key, double value, int decimals);

/* Objects with the keys "cgroup" and "pressure". */
void record_json_cgroup(struct jsontext *json, const struct record_cgroup *cgroup);
void record_json_pressure(
	struct jsontext *json, const struct record_pressure *pressure, int decimals);

/* An element of an array. */
void record_json_gpu(struct jsontext *json, const struct record_gpu *gpu, int decimals);
