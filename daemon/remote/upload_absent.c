/* upload_absent: replaces upload.c and upload_parts.c in builds without libcurl. */
#include "remote/upload.h"

#include "remote/client/client.h"

#include <errno.h>

static int absent(struct fault *fault)
{
	return fault_set(fault, -ENOTSUP, "%s", client_refused());
}

int upload_check(const char *url, struct fault *fault)
{
	(void)url;
	return absent(fault);
}

int upload_look(const char *url, struct upload_found *ret, struct fault *fault)
{
	(void)url, (void)ret;
	return absent(fault);
}

int upload_read(const char *url, uint64_t most, char **ret, struct upload_found *ret_found,
	struct fault *fault)
{
	(void)url, (void)most, (void)ret, (void)ret_found;
	return absent(fault);
}

int upload_write(const char *url, const void *bytes, size_t size,
	const struct upload_found *instead, struct upload_found *ret, struct fault *fault)
{
	(void)url, (void)bytes, (void)size, (void)instead, (void)ret;
	return absent(fault);
}

int upload_file(const char *url, int fd, uint64_t size, struct fault *fault)
{
	(void)url, (void)fd, (void)size;
	return absent(fault);
}

int upload_list(const char *prefix, upload_take_fn *take, void *context, struct fault *fault)
{
	(void)prefix, (void)take, (void)context;
	return absent(fault);
}

int upload_sweep(const char *prefix, upload_take_fn *take, void *context, struct fault *fault)
{
	(void)prefix, (void)take, (void)context;
	return absent(fault);
}
