/* answer: which request gets which answer. Nothing here waits. A client's request is read up to the
 * end of its head; a request with a body is refused.
 *
 * The page of another site must not read from this server through its visitor's browser. So Host
 * must be an address or a name of this machine: otherwise the site could make its own name lead
 * here, and both would have the same origin. And no answer may be used by other origins. */
#include "http/http_impl.h"

#include "base/clock.h"
#include "base/util.h"
#include "http/exposition.h"
#include "http/page.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWER_STREAM_DIGITS = 4 };

static const char answer_text[] = "text/plain; charset=utf-8";

/* ---- sentences ---- */

/* Sends a response that was made for this request only. */
static enum MHD_Result answer_queue(
	struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
	if (!response)
		return MHD_NO; /* closes the connection */
	enum MHD_Result result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_sentence(
	struct MHD_Connection *connection, unsigned status, const char *sentence)
{
	struct MHD_Response *response =
		document_response(answer_text, sentence, strlen(sentence), false);
	if (response && status == MHD_HTTP_METHOD_NOT_ALLOWED &&
		MHD_add_response_header(response, "Allow", "GET, HEAD") != MHD_YES) {
		MHD_destroy_response(response);
		response = NULL;
	}
	/* A refused request may continue with a body, which nobody reads. */
	if (response && status >= MHD_HTTP_BAD_REQUEST && status != MHD_HTTP_NOT_FOUND &&
		status != MHD_HTTP_SERVICE_UNAVAILABLE)
		(void)MHD_add_response_header(response, "Connection", "close");
	return answer_queue(connection, status, response);
}

/* ---- documents ---- */

/* Serves the newest published document from now on. Connections that still send the old one hold a
 * reference to it. */
static void answer_renew(struct http *http, enum http_document which)
{
	static const char *const types[] = {
		[HTTP_METRICS] = EXPOSITION_OPENMETRICS, [HTTP_STATUS] = "application/json"};
	pthread_mutex_lock(&http->lock);
	char *text = http->published[which];
	http->published[which] = NULL;
	pthread_mutex_unlock(&http->lock);
	if (!text)
		return;
	document_forget(&http->served[which]);
	if (which == HTTP_METRICS)
		document_forget(&http->prometheus);
	http->served[which] = document_make(types[which], text, strlen(text), true);
	http->text[which] = http->served[which].response ? text : NULL;
}

static enum MHD_Result answer_send(
	struct MHD_Connection *connection, struct place *place, struct document document)
{
	place->answer = document;
	return MHD_queue_response(connection, MHD_HTTP_OK, document.response);
}

static enum MHD_Result answer_document(
	struct MHD_Connection *connection, struct place *place, struct document document)
{
	if (document.response)
		return answer_send(connection, place, document);
	return answer_sentence(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
		"the daemon has not published anything yet: try again in a second\n");
}

static enum MHD_Result answer_metrics(
	struct http *http, struct MHD_Connection *connection, struct place *place)
{
	const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
	answer_renew(http, HTTP_METRICS);
	if (exposition_wants_openmetrics(accept))
		return answer_document(connection, place, http->served[HTTP_METRICS]);
	if (!http->prometheus.response && http->text[HTTP_METRICS]) {
		char *text = exposition_prometheus(http->text[HTTP_METRICS]);
		if (text)
			http->prometheus =
				document_make(EXPOSITION_PROMETHEUS, text, strlen(text), true);
	}
	return answer_document(connection, place, http->prometheus);
}

static enum MHD_Result answer_status(
	struct http *http, struct MHD_Connection *connection, struct place *place)
{
	answer_renew(http, HTTP_STATUS);
	return answer_document(connection, place, http->served[HTTP_STATUS]);
}

static enum MHD_Result answer_health(
	struct http *http, struct MHD_Connection *connection, struct place *place)
{
	(void)place;
	pthread_mutex_lock(&http->lock);
	uint64_t ticked = http->published_ns;
	pthread_mutex_unlock(&http->lock);
	if (ticked && clock_ns() - ticked < HTTP_TICK_LATE_S * HTTP_S_NS)
		return answer_sentence(connection, MHD_HTTP_OK, "good\n");
	return answer_sentence(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
		"the event loop has not ticked for some seconds\n");
}

static enum MHD_Result answer_page(
	struct http *http, struct MHD_Connection *connection, struct place *place)
{
	if (!http->page.response)
		http->page = document_make(
			"text/html; charset=utf-8", http_page_html, http_page_html_size, false);
	return http->page.response ? answer_send(connection, place, http->page) : MHD_NO;
}

/* ---- the sheet ---- */

static enum MHD_Result answer_sheet(
	struct http *http, struct MHD_Connection *connection, struct place *place, bool json)
{
	const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "stream");
	size_t digits = text ? strspn(text, "0123456789") : 0;
	struct document picture;
	if (text && (!digits || text[digits] || digits > ANSWER_STREAM_DIGITS))
		return answer_sentence(connection, MHD_HTTP_BAD_REQUEST,
			"stream: expected the number of a stream in /status, from 0\n");
	uint32_t stream = text ? (uint32_t)strtoul(text, NULL, 10) : 0;
	switch (picture_of(http, place, stream, json, &picture)) {
	case PICTURE_LATER:
		return MHD_YES;
	case PICTURE_CROWDED:
		return answer_sentence(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			"too many clients wait for sheets: try again in a few seconds\n");
	case PICTURE_HERE:
		break;
	}
	if (picture.response)
		return answer_send(connection, place, picture);
	return answer_sentence(connection, MHD_HTTP_NOT_FOUND,
		"no sheet: there is no such stream, or it has no complete batch now; /status lists "
		"the streams\n");
}

static enum MHD_Result answer_get_sheet(
	struct http *http, struct MHD_Connection *connection, struct place *place)
{
	return answer_sheet(http, connection, place, false);
}

static enum MHD_Result answer_get_sheet_json(
	struct http *http, struct MHD_Connection *connection, struct place *place)
{
	return answer_sheet(http, connection, place, true);
}

/* ---- requests ---- */

static enum MHD_Result answer_path(
	struct http *http, struct MHD_Connection *connection, const char *url, struct place *place)
{
	static const struct {
		const char *url;
		enum MHD_Result (*answer)(
			struct http *http, struct MHD_Connection *connection, struct place *place);
	} paths[] = {{"/metrics", answer_metrics}, {"/status", answer_status},
		{"/healthz", answer_health}, {"/", answer_page}, {"/sheet", answer_get_sheet},
		{"/sheet.json", answer_get_sheet_json}};
	for (size_t i = 0; i < UTIL_COUNT(paths); i++)
		if (strcmp(url, paths[i].url) == 0)
			return paths[i].answer(http, connection, place);
	return answer_sentence(connection, MHD_HTTP_NOT_FOUND,
		"not found: this server has /, /metrics, /status, /sheet, /sheet.json and "
		"/healthz\n");
}

static bool answer_has_body(struct MHD_Connection *connection)
{
	const char *length =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
	return (length && strspn(length, "0") != strlen(length)) ||
	       MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding");
}

/* HTTP/1.0 has no Host, and no browser uses it. */
static bool answer_is_meant(const struct http *http, struct MHD_Connection *connection)
{
	const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
	const char *names[HTTP_NAMES];
	for (int i = 0; i < HTTP_NAMES; i++)
		names[i] = http->name[i];
	return !host || address_names_us(host, names, HTTP_NAMES);
}

enum MHD_Result answer_request(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **request)
{
	struct http *http = context;
	(void)version;
	(void)upload;
	if (*request)
		return *upload_size ? MHD_NO : answer_path(http, connection, url, *request);
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct place *place = info->socket_context;
	*request = place;
	place->asked = true;
	place->since_ns = clock_ns();
	http_count(&http->requests);
	if (!answer_is_meant(http, connection)) {
		http_count(&http->refused);
		return answer_sentence(connection, MHD_HTTP_FORBIDDEN,
			"unknown Host: use an address, localhost, the name of this machine, or the "
			"name in penstock.yaml's `http`\n");
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return answer_sentence(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			"only GET and HEAD are allowed: nothing can be changed here\n");
	if (answer_has_body(connection))
		return answer_sentence(
			connection, MHD_HTTP_CONTENT_TOO_LARGE, "a request may not have a body\n");
	return MHD_YES;
}

/* ---- begin and end ---- */

void answer_learn_names(struct http *http)
{
	char *name = http->name[0];
	if (gethostname(name, ADDRESS_HOST) || strnlen(name, ADDRESS_HOST) == ADDRESS_HOST)
		name[0] = 0;
	size_t first = strcspn(name, ".");
	memcpy(http->name[1], name, first);
	if (first && first + sizeof ".local" <= ADDRESS_HOST) {
		/* Multicast DNS: nobody outside this network can have a name with this ending. */
		memcpy(http->name[2], name, first);
		memcpy(http->name[2] + first, ".local", sizeof ".local");
	}
	if (!http->address.local)
		memcpy(http->name[3], http->address.host, ADDRESS_HOST);
}

void answer_deinit(struct http *http)
{
	for (int i = 0; i < HTTP_DOCUMENTS; i++) {
		document_forget(&http->served[i]);
		free(http->published[i]);
	}
	document_forget(&http->prometheus);
	document_forget(&http->page);
}
