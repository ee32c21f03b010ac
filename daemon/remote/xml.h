/* xml: reads what S3 and STS answer, with expat.
 *
 * Each element is given to a function when it ends, with its path from the root and the text that
 * is directly in it: "ListBucketResult/Contents/Key", "a.jpg"; then "ListBucketResult/Contents",
 * "". Names lose their namespace prefix. A document type declaration is refused, and with it every
 * entity but the five that XML has. Depth, names and texts are bounded, so that memory does not
 * depend on the document's size.
 *
 * One thread per reader; pure. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

enum { XML_DEPTH_MAX = 16, XML_PATH_MAX = 512, XML_TEXT_MAX = 16384 };

/* An answer other than 0 stops the reader, which returns it. */
typedef int xml_take_fn(void *context, const char *path, const char *text);

struct xml;

/* NULL without memory. */
struct xml *xml_new(xml_take_fn *take, void *context);
void xml_free(struct xml *xml);

/* Reads the next bytes; `last`: the document ends after them. 0; -EINVAL with a sentence (line and
 * reason, not the document's text); -ENOMEM; what `take` returned, without a sentence. */
int xml_feed(struct xml *xml, const void *bytes, size_t size, bool last, struct fault *fault);

/* xml_new, xml_feed, xml_free. */
int xml_read(const void *bytes, size_t size, xml_take_fn *take, void *context, struct fault *fault);
