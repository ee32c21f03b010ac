/* config_remote: the keys of remote data: the mapping `remote:` and `cache_size`. See config.h. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "remote/remote.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_PLAIN_HTTP = 16, CONFIG_HOST = 256, CONFIG_URL = 1024, CONFIG_WORD = 128 };

/* A size of 0 is auto. */
#define CONFIG_CACHE_OFF UINT64_MAX
#define CONFIG_CACHE_LEAST ((uint64_t)64 << 20)

struct config_remote {
	char endpoint_url[CONFIG_URL], region[CONFIG_WORD], profile[CONFIG_WORD]; /* "": default */
	bool anonymous, requester_pays;
	enum remote_path_style path_style;
	uint32_t connections; /* default 64 */
	uint64_t bandwidth; /* bytes/s; 0: no limit */
	uint32_t timeout_s; /* default 300 */
	double hedge; /* default 0.02 */
	uint32_t plain_count;
	char plain_http[CONFIG_PLAIN_HTTP][CONFIG_HOST];
};

void config_remote_init(struct config_remote *remote);

/* Readers of the two keys, for the table of config.c. */
int config_read_remote(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
int config_read_cache_size(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);
