/* document: what is served, with the header fields that every answer has. Thread: penstock-http. */
#include "http/http_impl.h"

#include "http/page.h"

#include <stdlib.h>

static bool document_header(struct MHD_Response *response, const char *name, const char *value)
{
	return MHD_add_response_header(response, name, value) == MHD_YES;
}

struct MHD_Response *document_response(const char *type, const void *bytes, size_t size, bool owned)
{
	/* libmicrohttpd does not write to bytes that it does not own. */
	struct MHD_Response *response = MHD_create_response_from_buffer(
		size, (void *)bytes, owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!response) {
		if (owned)
			free((void *)bytes);
		return NULL;
	}
	bool page = bytes == http_page_html;
	bool good = document_header(response, "Content-Type", type) &&
		    document_header(response, "Cache-Control", "no-store") &&
		    document_header(response, "X-Content-Type-Options", "nosniff") &&
		    document_header(response, "X-Frame-Options", "DENY") &&
		    document_header(response, "Referrer-Policy", "no-referrer") &&
		    document_header(response, "Cross-Origin-Resource-Policy", "same-origin") &&
		    document_header(response, "Content-Security-Policy",
			    page ? http_page_csp : "default-src 'none'; frame-ancestors 'none'");
	if (good)
		return response;
	MHD_destroy_response(response);
	return NULL;
}

struct document document_make(const char *type, const void *bytes, size_t size, bool owned)
{
	struct MHD_Response *response = document_response(type, bytes, size, owned);
	return (struct document){.response = response, .bytes = response ? size : 0};
}

void document_forget(struct document *document)
{
	if (document->response)
		MHD_destroy_response(document->response);
	*document = (struct document){0};
}
