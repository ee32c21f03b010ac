/* xml: see xml.h. */
#include "remote/xml.h"

#include "base/util.h"

#include <errno.h>
#include <expat.h>
#include <limits.h>
#include <string.h>

struct xml {
	XML_Parser parser;
	xml_take_fn *take;
	void *context;
	int stopped; /* what `take` answered, or a negative errno; 0: it goes on */
	const char *why; /* of -EINVAL */
	unsigned depth;
	size_t path_used, text_used;
	size_t began[XML_DEPTH_MAX]; /* where the names of the open elements begin in `path` */
	char path[XML_PATH_MAX], text[XML_TEXT_MAX];
};

static void stop(struct xml *xml, int code, const char *why)
{
	if (xml->stopped)
		return;
	xml->stopped = code;
	xml->why = why;
	(void)XML_StopParser(xml->parser, XML_FALSE);
}

static void on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
	struct xml *xml = context;
	const char *colon = strrchr(name, ':');
	const char *local = colon ? colon + 1 : name;
	size_t size = strlen(local);
	(void)attributes;
	if (xml->depth == XML_DEPTH_MAX) {
		stop(xml, -EINVAL, "elements are nested too deep");
		return;
	}
	if (xml->path_used + size + 2 > sizeof xml->path) {
		stop(xml, -EINVAL, "the names of its elements are too long");
		return;
	}
	xml->began[xml->depth++] = xml->path_used;
	if (xml->path_used)
		xml->path[xml->path_used++] = '/';
	memcpy(xml->path + xml->path_used, local, size + 1);
	xml->path_used += size;
	xml->text_used = 0;
}

static void on_end(void *context, const XML_Char *name)
{
	struct xml *xml = context;
	(void)name;
	if (xml->stopped)
		return;
	xml->text[xml->text_used] = 0;
	int rc = xml->take(xml->context, xml->path, xml->text);
	if (rc)
		stop(xml, rc, NULL);
	xml->path_used = xml->began[--xml->depth];
	xml->path[xml->path_used] = 0;
	xml->text_used = 0;
}

static void on_text(void *context, const XML_Char *text, int size)
{
	struct xml *xml = context;
	if (xml->stopped)
		return;
	if ((size_t)size >= sizeof xml->text - xml->text_used) {
		stop(xml, -EINVAL, "an element has too much text");
		return;
	}
	memcpy(xml->text + xml->text_used, text, (size_t)size);
	xml->text_used += (size_t)size;
}

static void on_doctype(void *context, const XML_Char *name, const XML_Char *system,
	const XML_Char *public, int internal)
{
	(void)name;
	(void)system;
	(void)public;
	(void)internal;
	stop(context, -EINVAL, "it has a document type declaration");
}

struct xml *xml_new(xml_take_fn *take, void *context)
{
	struct xml *xml = calloc(1, sizeof *xml);
	if (!xml)
		return NULL;
	xml->parser = XML_ParserCreate(NULL);
	if (!xml->parser) {
		free(xml);
		return NULL;
	}
	xml->take = take;
	xml->context = context;
	XML_SetUserData(xml->parser, xml);
	XML_SetElementHandler(xml->parser, on_start, on_end);
	XML_SetCharacterDataHandler(xml->parser, on_text);
	XML_SetStartDoctypeDeclHandler(xml->parser, on_doctype);
	return xml;
}

void xml_free(struct xml *xml)
{
	if (!xml)
		return;
	XML_ParserFree(xml->parser);
	/* An answer of STS has a secret key in it. */
	explicit_bzero(xml->text, sizeof xml->text);
	free(xml);
}

int xml_feed(struct xml *xml, const void *bytes, size_t size, bool last, struct fault *fault)
{
	if (size > INT_MAX / 2)
		return fault_set(fault, -EINVAL, "an XML document of %zu bytes", size);
	if (!xml->stopped && XML_Parse(xml->parser, bytes, (int)size, last) == XML_STATUS_OK)
		return 0;
	enum XML_Error error = XML_GetErrorCode(xml->parser);
	if (!xml->stopped && error == XML_ERROR_NO_MEMORY)
		return fault_set(fault, -ENOMEM, "no memory for an XML document");
	if (xml->stopped && !xml->why)
		return xml->stopped;
	return fault_set(fault, -EINVAL, "not the XML that was expected: line %lu: %s",
		(unsigned long)XML_GetCurrentLineNumber(xml->parser),
		xml->why ? xml->why : XML_ErrorString(error));
}

int xml_read(const void *bytes, size_t size, xml_take_fn *take, void *context, struct fault *fault)
{
	struct xml *xml = xml_new(take, context);
	if (!xml)
		return fault_set(fault, -ENOMEM, "no memory for an XML document");
	int rc = xml_feed(xml, bytes, size, true, fault);
	xml_free(xml);
	return rc;
}
