/* object: see object.h. */
#include "remote/object.h"

#include <errno.h>
#include <stdlib.h>

static int refuse(const char *url, struct fault *fault)
{
	return fault_set(fault, -ENOSYS, "%s: this penstock cannot read URLs", url);
}

int remote_object_open(const char *url, struct remote_object **ret, struct fault *fault)
{
	(void)ret;
	return refuse(url, fault);
}

int remote_object_open_listed(const char *url, uint64_t size, const char *etag, int64_t modified_s,
	struct remote_object **ret, struct fault *fault)
{
	(void)size, (void)etag, (void)modified_s, (void)ret;
	return refuse(url, fault);
}

struct remote_object *remote_object_ref(struct remote_object *object)
{
	return object;
}

void remote_object_unref(struct remote_object *object)
{
	(void)object;
}

const char *remote_object_url(const struct remote_object *object)
{
	(void)object;
	return "";
}

uint64_t remote_object_size(const struct remote_object *object)
{
	(void)object;
	return 0;
}

const char *remote_object_etag(const struct remote_object *object)
{
	(void)object;
	return "";
}

int64_t remote_object_stamp(const struct remote_object *object)
{
	(void)object;
	return 0;
}

int remote_object_read(struct remote_object *object, void *buffer, size_t size, uint64_t offset,
	struct fault *fault)
{
	(void)buffer, (void)size, (void)offset;
	return refuse(remote_object_url(object), fault);
}

bool remote_object_local(struct remote_object *object, uint64_t offset, uint64_t size, int *ret_fd)
{
	(void)object, (void)offset, (void)size, (void)ret_fd;
	return false;
}

void remote_object_begin(struct remote_read *read)
{
	read->result = refuse(remote_object_url(read->object), &read->fault);
	read->done(read);
}

void remote_object_cancel(struct remote_read *read)
{
	(void)read;
}

int remote_stream_open(struct remote_object *object, struct remote_stream **ret)
{
	(void)object, (void)ret;
	return -ENOSYS;
}

int remote_stream_read(struct remote_stream *stream, void *buffer, size_t size, uint64_t offset,
	struct fault *fault)
{
	(void)stream, (void)buffer, (void)size, (void)offset;
	return refuse("stream", fault);
}

void remote_stream_close(struct remote_stream *stream)
{
	(void)stream;
}

int remote_hold(const char *prefix, struct remote_hold **ret)
{
	(void)prefix;
	*ret = NULL;
	return 0;
}

void remote_hold_free(struct remote_hold *hold)
{
	(void)hold;
}
