/* remote: see remote.h. */
#include "remote/remote.h"

#include <errno.h>

void remote_options_default(struct remote_options *ret)
{
	*ret = (struct remote_options){.hedge = REMOTE_HEDGE};
}

int remote_start(const struct remote_options *options, struct fault *fault)
{
	(void)options;
	(void)fault;
	return 0;
}

void remote_stop(void)
{
}

void remote_stats_read(struct remote_stats *ret)
{
	*ret = (struct remote_stats){0};
}
