/* record_json: see record_json.h. */
#include "record/record_json.h"

void record_json_known(struct jsontext *json, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		jsontext_raw(json, key, "null");
	else
		jsontext_u64(json, key, value);
}

void record_json_share(struct jsontext *json, const char *key, double value, int decimals)
{
	if (value >= 0)
		jsontext_number(json, key, value, decimals);
	else
		jsontext_raw(json, key, "null");
}

void record_json_cgroup(struct jsontext *json, const struct record_cgroup *cgroup)
{
	jsontext_object(json, "cgroup");
	jsontext_string(json, "path", cgroup->path);
	record_json_known(json, "used", cgroup->used);
	record_json_known(json, "limit", cgroup->limit);
	record_json_known(json, "oom_kills", cgroup->oom_kills);
	jsontext_end(json);
}

void record_json_pressure(
	struct jsontext *json, const struct record_pressure *pressure, int decimals)
{
	jsontext_object(json, "pressure");
	record_json_share(json, "cpu_some", (double)pressure->cpu_some, decimals);
	record_json_share(json, "memory_some", (double)pressure->memory_some, decimals);
	record_json_share(json, "memory_full", (double)pressure->memory_full, decimals);
	record_json_share(json, "io_some", (double)pressure->io_some, decimals);
	record_json_share(json, "io_full", (double)pressure->io_full, decimals);
	jsontext_end(json);
}

void record_json_gpu(struct jsontext *json, const struct record_gpu *gpu, int decimals)
{
	jsontext_object(json, NULL);
	jsontext_u64(json, "device", gpu->device);
	jsontext_string(json, "name", gpu->name);
	record_json_known(json, "used", gpu->used);
	record_json_known(json, "total", gpu->total);
	record_json_share(json, "busy", (double)gpu->busy, decimals);
	jsontext_end(json);
}
