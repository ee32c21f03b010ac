/* remoted: see remoted.h. */
#include "serve/remoted.h"

#include "base/log.h"
#include "base/size.h"
#include "base/util.h"
#include "remote/auth/auth.h"
#include "remote/cache/disk.h"
#include "remote/remote.h"
#include "remote/url.h"
#include "serve/state.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

/* Half of what the cache has and the file system could still give it. */
static uint64_t cache_half(const char *folder)
{
	struct statvfs fs;
	struct disk *disk = NULL;
	struct disk_stats stats = {0};
	struct fault fault;
	if (statvfs(folder, &fs) < 0)
		return 0;
	if (disk_open_existing(folder, &disk, &fault) == 0 && disk)
		disk_stats_read(disk, &stats);
	disk_close(disk);
	return ((uint64_t)fs.f_bavail * fs.f_frsize + stats.used) / 2;
}

static uint64_t cache_size(const struct server *server)
{
	const struct config *config = server->config;
	if (config->cache_size == CONFIG_CACHE_OFF ||
		(!config->cache_size && !config->cache_dir[0]))
		return 0;
	return config->cache_size ? config->cache_size : cache_half(server->cache_dir);
}

/* NULL for "". */
static const char *given(const char *text)
{
	return text[0] ? text : NULL;
}

int remoted_begin(struct server *server, struct fault *fault)
{
	const struct config *config = server->config;
	const struct config_remote *remote = &config->remote;
	const char *plain[CONFIG_PLAIN_HTTP + 1] = {NULL}, *roots[CONFIG_ROOTS + 1] = {NULL};
	struct remote_options options;
	struct fault why = {{0}};
	size_t urls = 0;
	remote_options_default(&options);
	for (uint32_t i = 0; i < remote->plain_count; i++)
		plain[i] = remote->plain_http[i];
	for (uint32_t i = 0; i < config->roots.count; i++)
		if (remote_is_url(config->roots.path[i]))
			roots[urls++] = config->roots.path[i];
	options.cache_size = cache_size(server);
	options.cache_dir = options.cache_size ? server->cache_dir : NULL;
	options.endpoint_url = given(remote->endpoint_url);
	options.region = given(remote->region);
	options.profile = given(remote->profile);
	options.anonymous = remote->anonymous;
	options.requester_pays = remote->requester_pays;
	options.path_style = remote->path_style;
	options.connections = remote->connections;
	options.bandwidth = remote->bandwidth;
	options.timeout_s = remote->timeout_s;
	options.hedge = remote->hedge;
	options.plain_http = plain;
	/* Roots that are all folders allow no URL. */
	options.roots = config->roots.count ? roots : NULL;
	if (auth_before_confinement(&options, &why) < 0)
		log_warning("remote data: %s", why.text);
	int result = remote_start(&options, fault);
	return result < 0 ? -EINVAL : 0;
}

void remoted_end(void)
{
	remote_stop();
}
