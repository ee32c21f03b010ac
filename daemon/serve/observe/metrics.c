/* metrics: what the daemon counts, as OpenMetrics 1.0. docs/reference/metrics.md explains each
 * metric; a test compares the two.
 *
 * Labels are few and bounded: a stream's number (which tells apart series whose names are alike),
 * name, group and rank; a trainer's number and pid; reasons, stages and states by name. Counters of
 * the daemon include streams that are gone; counters of a stream or a trainer end with it. */
#include "serve/observe/observe.h"

#include "base/clock.h"
#include "base/util.h"
#include "http/http.h"
#include "proto/text.h"
#include "proto/utf8.h"
#include "remote/remote.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	METRICS_VALUE = 100, /* bytes of a label's text that are shown */
	METRICS_LABELS = 1024,
};

struct metrics {
	struct text text;
	const char *family; /* of the samples that follow */
};

/* A stream, read once for all families. */
struct metrics_stream {
	struct group *group;
	struct stream_stats stats;
	struct verdict verdict;
	char labels[METRICS_LABELS];
};

struct metrics_streams {
	struct metrics_stream *of;
	uint32_t count;
};

/* ---- text ---- */

/* `unit` is "" or the end of the name. */
static void metrics_family(
	struct metrics *m, const char *name, const char *type, const char *unit, const char *help)
{
	text_print(&m->text, "# TYPE %s %s\n", name, type);
	if (unit[0])
		text_print(&m->text, "# UNIT %s %s\n", name, unit);
	text_print(&m->text, "# HELP %s %s\n", name, help);
	m->family = name;
}

/* One sample: the family's name, `suffix`, labels ("": none) and a value as text. */
static void metrics_sample(
	struct metrics *m, const char *suffix, const char *labels, const char *value)
{
	text_put(&m->text, m->family);
	text_put(&m->text, suffix);
	if (labels[0]) {
		text_put(&m->text, "{");
		text_put(&m->text, labels);
		text_put(&m->text, "}");
	}
	text_put(&m->text, " ");
	text_put(&m->text, value);
	text_put(&m->text, "\n");
}

static void metrics_u64(struct metrics *m, const char *suffix, const char *labels, uint64_t value)
{
	char digits[24];
	(void)snprintf(digits, sizeof digits, "%" PRIu64, value);
	metrics_sample(m, suffix, labels, digits);
}

/* Nanoseconds as seconds, exactly. */
static void metrics_ns(struct metrics *m, const char *suffix, const char *labels, uint64_t ns)
{
	char text[40];
	(void)snprintf(
		text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
	metrics_sample(m, suffix, labels, text);
}

/* A share in thousandths, rounded. The locale is C, since nothing sets another. */
static void metrics_ratio(struct metrics *m, const char *labels, double value)
{
	char text[40];
	(void)snprintf(text, sizeof text, "%.3f", value);
	metrics_sample(m, "", labels, text);
}

/* A family of one sample. */
static void metrics_counter(struct metrics *m, const char *name, const char *help, uint64_t value)
{
	metrics_family(m, name, "counter", "", help);
	metrics_u64(m, "_total", "", value);
}

static void metrics_gauge(struct metrics *m, const char *name, const char *help, uint64_t value)
{
	metrics_family(m, name, "gauge", "", help);
	metrics_u64(m, "", "", value);
}

static void metrics_bytes(struct metrics *m, const char *name, const char *help, uint64_t value)
{
	metrics_family(m, name, "gauge", "bytes", help);
	metrics_u64(m, "", "", value);
}

static void metrics_seconds_counter(
	struct metrics *m, const char *name, const char *help, uint64_t ns)
{
	metrics_family(m, name, "counter", "seconds", help);
	metrics_ns(m, "_total", "", ns);
}

/* ---- labels ---- */

/* Writes `key="text"`, escaped; returns its end. There must be room for the key and twice
 * METRICS_VALUE. */
static char *metrics_label(char *to, const char *key, const char *text)
{
	bool plain = !utf8_is_valid(text); /* then only ASCII is shown */
	size_t size = utf8_cut(text, METRICS_VALUE);
	to += sprintf(to, "%s=\"", key);
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '\\' || c == '"')
			*to++ = '\\';
		*to++ = c < 0x20 || c == 0x7f || (plain && c >= 0x80) ? '?' : (char)c;
	}
	*to++ = '"';
	*to = 0;
	return to;
}

static void metrics_stream_labels(const struct group *group, char ret[METRICS_LABELS])
{
	const struct stream_spec *spec = &group->spec;
	char *at = ret + sprintf(ret, "id=\"%" PRIu32 "\",", group->extent_number);
	at = metrics_label(at, "stream", spec->name[0] ? spec->name : spec->source);
	*at++ = ',';
	at = metrics_label(at, "group", group->name[0] == '\n' ? "" : group->name);
	(void)sprintf(at, ",rank=\"%" PRIu32 "\"", spec->rank);
}

static struct metrics_streams metrics_look(const struct server *server)
{
	struct metrics_streams streams = {0};
	list_each (g, &server->groups, struct group, node)
		streams.count += g->stream && !g->closing;
	streams.of = calloc(streams.count + 1u, sizeof *streams.of);
	uint32_t i = 0;
	list_each (g, &server->groups, struct group, node) {
		if (!streams.of || !g->stream || g->closing)
			continue;
		struct metrics_stream *s = &streams.of[i++];
		s->group = g;
		stream_stats(g->stream, &s->stats);
		bottleneck_find(g, &s->verdict);
		metrics_stream_labels(g, s->labels);
	}
	return streams;
}

/* ---- the daemon ---- */

static void metrics_daemon(struct metrics *m, struct server *server)
{
	metrics_family(m, "penstock_build", "info", "", "Which penstockd this is.");
	metrics_sample(m, "_info", "version=\"" PENSTOCK_VERSION "\"", "1");
	metrics_family(m, "penstock_start_time_seconds", "gauge", "seconds",
		"When the daemon started, in Unix time.");
	metrics_ns(m, "", "", server->started_unix_ns);
	metrics_gauge(m, "penstock_threads", "Decoding threads.", workers_threads(server->workers));
	metrics_gauge(
		m, "penstock_clients", "Connections of trainers and tools.", server->client_count);
	metrics_gauge(m, "penstock_draining", "1 while the daemon ends, else 0.", server->draining);
	metrics_gauge(m, "penstock_notices", "Warnings in the status: read them there.",
		server->notices.count);
	metrics_family(m, "penstock_publish_cpu_seconds", "gauge", "seconds",
		"CPU time of the event loop for the last status and metrics.");
	metrics_ns(m, "", "", server->publish.cpu_ns);
}

static void metrics_http(struct metrics *m, struct server *server)
{
	struct http_stats stats;
	http_stats_read(server->publish.http, &stats);
	metrics_counter(
		m, "penstock_http_requests", "HTTP requests that were answered.", stats.requests);
	metrics_counter(m, "penstock_http_refused",
		"HTTP connections and requests that were refused: too slow, too many, or for "
		"another host.",
		stats.refused);
	metrics_gauge(m, "penstock_http_connections", "HTTP connections that are open.",
		stats.connections);
}

static void metrics_memory(struct metrics *m, struct server *server)
{
	struct ledger_line line[LEDGER_LINES];
	int lines = ledger_snapshot(&server->ledger, line);
	uint64_t batches = 0;
	metrics_bytes(
		m, "penstock_memory_budget_bytes", "The memory budget.", server->ledger.budget);
	metrics_family(m, "penstock_memory_reserved_bytes", "gauge", "bytes",
		"The ledger: how much of the budget each part holds; `batches` is all streams.");
	for (int i = 0; i < lines; i++) {
		char label[METRICS_LABELS];
		if (strncmp(line[i].name, "stream ", 7) == 0) {
			batches += line[i].bytes;
			continue;
		}
		(void)metrics_label(label, "line", line[i].name);
		metrics_u64(m, "", label, line[i].bytes);
	}
	metrics_u64(m, "", "line=\"batches\"", batches);
}

/* ---- reading ---- */

static void metrics_fetch(struct metrics *m, const struct fetch_stats *fetch)
{
	metrics_family(m, "penstock_read_bytes", "counter", "bytes",
		"Bytes asked from storage, the page cache included.");
	metrics_u64(m, "_total", "", fetch->bytes);
	metrics_counter(m, "penstock_reads", "Reads asked from the kernel.", fetch->reads);
	metrics_counter(m, "penstock_samples", "Samples that were read or found in the cache.",
		fetch->samples);
	metrics_counter(m, "penstock_merged_samples",
		"Samples that came with the read of a neighbor.", fetch->merged);
	metrics_counter(m, "penstock_shared_samples",
		"Samples that came with the read of the same sample for another stream.",
		fetch->shared);
	metrics_gauge(m, "penstock_reads_in_flight", "Reads under way.", fetch->inflight);
	metrics_counter(m, "penstock_index_hits",
		"Looks into pages of indexes that were in memory.", fetch->index_hits);
	metrics_counter(m, "penstock_index_misses", "Pages of indexes that had to be read.",
		fetch->index_misses);
	metrics_bytes(
		m, "penstock_read_buffers_used_bytes", "Read buffers in use.", fetch->arena_used);
	metrics_counter(m, "penstock_read_buffer_waits",
		"How often reading waited for decoding to free buffers.", fetch->arena_waits);
	metrics_counter(m, "penstock_cache_hits", "Samples found in the cache of samples.",
		fetch->cache.hits);
	metrics_counter(
		m, "penstock_cache_misses", "Samples not found there.", fetch->cache.misses);
	metrics_gauge(m, "penstock_cache_samples", "Samples in the cache.", fetch->cache.samples);
	metrics_bytes(m, "penstock_cache_bytes", "Memory of the cache.", fetch->cache.bytes);
	metrics_counter(m, "penstock_cache_shrinks",
		"How often the cache gave memory back to a stream that opened.",
		fetch->cache.shrinks);
}

/* ---- what streams counted, all together ---- */

static void metrics_reasons(struct metrics *m, const struct totals *totals)
{
	char label[METRICS_LABELS];
	metrics_family(m, "penstock_broken_samples", "counter", "",
		"Samples that could not be read or decoded, by reason.");
	for (unsigned i = 0; i < STREAM_REASONS; i++) {
		if (i == FETCH_OK || i == FETCH_OUTCOMES + DECODE_OK)
			continue;
		(void)metrics_label(label, "reason", stream_reason_name(i));
		metrics_u64(m, "_total", label, totals->streams.broken[i]);
	}
	metrics_family(m, "penstock_fallbacks", "counter", "",
		"Images that libjpeg-turbo decoded instead, by reason.");
	for (unsigned i = 1; i < STEPBACKS; i++) {
		(void)metrics_label(label, "reason", stepback_name((enum stepback)i));
		metrics_u64(m, "_total", label, totals->streams.fallbacks[i]);
	}
	metrics_family(m, "penstock_checkpoint_images", "counter", "",
		"Images that were decoded from kept entry points, whose entry points were made, "
		"and whose kept ones did not fit.");
	metrics_u64(m, "_total", "event=\"used\"", totals->streams.entry_points_used);
	metrics_u64(m, "_total", "event=\"made\"", totals->streams.entry_points_made);
	metrics_u64(m, "_total", "event=\"dropped\"", totals->streams.entry_points_dropped);
}

static void metrics_stages(
	struct metrics *m, const struct totals *totals, const struct fetch_stats *fetch)
{
	char label[METRICS_LABELS];
	metrics_family(m, "penstock_stage_cpu_seconds", "counter", "seconds",
		"CPU time by stage; that of decoding by step.");
	metrics_ns(m, "_total", "stage=\"read\",step=\"\"", fetch->cpu_ns);
	for (int i = 0; i < DECODE_STAGES; i++) {
		char *at = label + sprintf(label, "stage=\"decode\",");
		(void)metrics_label(at, "step", decode_stage_name((enum decode_stage)i));
		metrics_ns(m, "_total", label, totals->streams.stage_ns[i]);
	}
	metrics_ns(m, "_total", "stage=\"pixel\",step=\"\"", totals->streams.pixel_ns);
	metrics_ns(m, "_total", "stage=\"serve\",step=\"\"", clock_thread_cpu_ns());
}

static void metrics_totals(struct metrics *m, struct server *server)
{
	struct totals totals;
	struct workers_stats pool;
	totals_read(server, &totals);
	workers_stats_read(server->workers, &pool);
	metrics_counter(m, "penstock_images", "Images that were made.", totals.streams.images);
	metrics_counter(
		m, "penstock_batches", "Batches that were completed.", totals.streams.batches);
	metrics_seconds_counter(m, "penstock_trainer_wait_seconds",
		"Time in which a trainer of a stream held nothing and waited, all streams "
		"together.",
		totals.trainer_wait_ns);
	metrics_seconds_counter(m, "penstock_slots_full_seconds",
		"Time in which every slot of a stream was complete or held, all streams together.",
		totals.slots_full_ns);
	metrics_seconds_counter(m, "penstock_workers_idle_seconds",
		"Time in which decoding threads waited for samples, all together.", pool.idle_ns);
	metrics_gauge(m, "penstock_decode_queue", "Samples that wait for a decoding thread.",
		pool.queued);
	metrics_reasons(m, &totals);
}

/* ---- histograms ---- */

static void metrics_histogram(
	struct metrics *m, const char *name, const char *help, const struct histogram *histogram)
{
	uint64_t below = 0;
	char label[64];
	metrics_family(m, name, "histogram", "seconds", help);
	for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
		below += histogram->bucket[i];
		/* OpenMetrics requires a whole bound to be written as a float. */
		double bound = (double)histogram_bound_ns(i) * 1e-9;
		(void)snprintf(label, sizeof label,
			floor(bound) == bound ? "le=\"%.1f\"" : "le=\"%g\"", bound);
		metrics_u64(m, "_bucket", label, below);
	}
	metrics_u64(m, "_bucket", "le=\"+Inf\"", histogram->count);
	metrics_u64(m, "_count", "", histogram->count);
	metrics_ns(m, "_sum", "", histogram->sum_ns);
}

/* ---- remote storage ---- */

static void metrics_bytes_counter(
	struct metrics *m, const char *name, const char *help, uint64_t value)
{
	metrics_family(m, name, "counter", "bytes", help);
	metrics_u64(m, "_total", "", value);
}

static void metrics_remote_requests(struct metrics *m, const struct remote_stats *stats)
{
	char label[METRICS_LABELS];
	metrics_counter(m, "penstock_remote_attempts",
		"Requests that were sent, retries and hedges included.", stats->requests);
	metrics_family(m, "penstock_remote_requests", "counter", "",
		"Requests for remote data that ended, by outcome.");
	metrics_u64(m, "_total", "outcome=\"done\"", stats->done);
	metrics_u64(m, "_total", "outcome=\"failed\"", stats->errors);
	metrics_u64(m, "_total", "outcome=\"canceled\"", stats->canceled);
	metrics_family(
		m, "penstock_remote_retries", "counter", "", "Attempts that failed, by reason.");
	for (unsigned i = 0; i < REMOTE_RETRIES; i++) {
		(void)metrics_label(label, "reason", remote_retry_name(i));
		metrics_u64(m, "_total", label, stats->retried[i]);
	}
	metrics_counter(m, "penstock_remote_hedges",
		"Second attempts that were sent because the first was slow.", stats->hedges);
	metrics_counter(m, "penstock_remote_hedges_won",
		"Second attempts that delivered before the first.", stats->hedges_won);
	metrics_counter(m, "penstock_remote_slowdowns",
		"How often the number of connections was halved because a server asked for it.",
		stats->slowdowns);
	metrics_seconds_counter(m, "penstock_remote_waiting_seconds",
		"Time with requests for servers that do not answer.", stats->waiting_ns);
	metrics_seconds_counter(m, "penstock_remote_throttled_seconds",
		"Time in which the limit of bandwidth held transfers back.", stats->throttled_ns);
}

static void metrics_remote_network(struct metrics *m, const struct remote_stats *stats)
{
	metrics_bytes_counter(m, "penstock_remote_received_bytes",
		"Bytes of bodies that were received.", stats->bytes);
	metrics_bytes_counter(m, "penstock_remote_wasted_bytes",
		"Bytes of these that were not used: of hedges that lost, and of errors.",
		stats->wasted_bytes);
	metrics_counter(
		m, "penstock_remote_connects", "Connections that were made.", stats->connects);
	metrics_gauge(m, "penstock_remote_connections", "Connections with a request now.",
		stats->connections);
	metrics_gauge(m, "penstock_remote_connections_limit", "Connections that are allowed now.",
		stats->connections_limit);
	metrics_gauge(m, "penstock_remote_queued_requests",
		"Requests that wait for a connection or for a retry.", stats->queued);
	metrics_histogram(m, "penstock_remote_first_byte_seconds",
		"From sending a request to the first byte of its body.", &stats->first_byte);
}

static void metrics_remote_cache(struct metrics *m, const struct remote_stats *stats)
{
	metrics_bytes_counter(m, "penstock_remote_cache_hit_bytes",
		"Bytes of remote data that were read from the cache on disk.", stats->hit_bytes);
	metrics_bytes_counter(m, "penstock_remote_cache_miss_bytes",
		"Bytes of remote data that were not in it.", stats->miss_bytes);
	metrics_bytes_counter(m, "penstock_remote_shared_bytes",
		"Bytes of these that came with the request of another reader.",
		stats->shared_bytes);
	metrics_bytes(m, "penstock_remote_cache_bytes",
		"Disk that the cache of remote data uses, by all processes.", stats->cache_used);
	metrics_bytes(
		m, "penstock_remote_cache_limit_bytes", "Disk that it may use.", stats->cache_size);
	metrics_bytes_counter(m, "penstock_remote_cache_dropped_bytes",
		"Bytes that this daemon dropped from it to make room.", stats->cache_dropped_bytes);
	metrics_counter(m, "penstock_remote_cache_broken_blocks",
		"Blocks of it that had a wrong checksum and were fetched again.",
		stats->cache_broken_blocks);
}

static void metrics_remote(struct metrics *m)
{
	struct remote_stats stats;
	remote_stats_read(&stats);
	metrics_remote_requests(m, &stats);
	metrics_remote_network(m, &stats);
	metrics_remote_cache(m, &stats);
}

static void metrics_histograms(struct metrics *m, const struct server *server)
{
	metrics_histogram(m, "penstock_batch_wait_seconds",
		"How long a trainer that had returned all its batches waited for the next.",
		&server->account.waits);
	metrics_histogram(m, "penstock_batch_fill_seconds",
		"How long a batch took from its slot to its last row.", &server->account.fills);
	metrics_histogram(m, "penstock_batch_held_seconds",
		"How long a trainer had a batch, from its announcement to its release.",
		&server->account.held);
}

/* ---- each stream ---- */

static void metrics_stream_counters(struct metrics *m, const struct metrics_streams *streams)
{
	metrics_family(m, "penstock_stream_images", "counter", "", "Images that were made.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_u64(m, "_total", streams->of[i].labels, streams->of[i].stats.images);
	metrics_family(m, "penstock_stream_batches", "counter", "", "Batches that were completed.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_u64(m, "_total", streams->of[i].labels, streams->of[i].stats.batches);
	metrics_family(m, "penstock_stream_trainer_wait_seconds", "counter", "seconds",
		"Time in which a trainer of the stream held nothing and waited.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_ns(m, "_total", streams->of[i].labels,
			streams->of[i].group->account.trainer_wait_ns);
	metrics_family(m, "penstock_stream_slots_full_seconds", "counter", "seconds",
		"Time in which every slot of the stream was complete or held.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_ns(m, "_total", streams->of[i].labels,
			streams->of[i].group->account.slots_full_ns);
}

static void metrics_stream_slots(struct metrics *m, const struct metrics_stream *stream)
{
	const struct {
		const char *state;
		uint64_t slots;
	} states[] = {{"free", stream->stats.slots_free}, {"filling", stream->stats.slots_filling},
		{"ready", stream->stats.slots_ready}, {"leased", stream->stats.slots_leased}};
	for (size_t i = 0; i < UTIL_COUNT(states); i++) {
		char labels[METRICS_LABELS + 32];
		(void)snprintf(
			labels, sizeof labels, "%s,state=\"%s\"", stream->labels, states[i].state);
		metrics_u64(m, "", labels, states[i].slots);
	}
}

/* One of the kinds is 1. */
static void metrics_bottleneck(struct metrics *m, const struct metrics_stream *stream)
{
	for (int kind = 0; kind < VERDICT_KINDS; kind++) {
		char labels[METRICS_LABELS + 32];
		(void)snprintf(labels, sizeof labels, "%s,kind=\"%s\"", stream->labels,
			verdict_kind_name((enum verdict_kind)kind));
		metrics_u64(m, "", labels, stream->verdict.kind == (enum verdict_kind)kind);
	}
}

static void metrics_verdicts(struct metrics *m, const struct metrics_streams *streams)
{
	metrics_family(m, "penstock_bottleneck", "gauge", "",
		"1 for what holds the stream up, by the verdict over the last ten seconds.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_bottleneck(m, &streams->of[i]);
}

static uint64_t metrics_broken(const struct stream_stats *stats)
{
	uint64_t broken = 0;
	for (unsigned i = 0; i < STREAM_REASONS; i++)
		broken += stats->broken[i];
	return broken;
}

static void metrics_stream_states(struct metrics *m, const struct metrics_streams *streams)
{
	metrics_family(m, "penstock_stream_broken_samples", "counter", "",
		"Samples that could not be read or decoded.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_u64(
			m, "_total", streams->of[i].labels, metrics_broken(&streams->of[i].stats));
	metrics_family(m, "penstock_stream_slots", "gauge", "", "Slots by state.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_stream_slots(m, &streams->of[i]);
	metrics_family(
		m, "penstock_stream_trainers", "gauge", "", "Trainers that read the stream.");
	for (uint32_t i = 0; i < streams->count; i++)
		metrics_u64(m, "", streams->of[i].labels, session_group_size(streams->of[i].group));
	metrics_family(m, "penstock_stream_epoch", "gauge", "",
		"The epoch of the batch that the stream's newest trainer was given last.");
	for (uint32_t i = 0; i < streams->count; i++) {
		const struct group *group = streams->of[i].group;
		const struct member *first = list_first(&group->members, struct member, of_group);
		metrics_u64(m, "", streams->of[i].labels, first ? first->epoch : 0);
	}
}

static void metrics_streams(
	struct metrics *m, const struct server *server, const struct metrics_streams *streams)
{
	uint64_t opening = 0;
	list_each (g, &server->groups, struct group, node)
		opening += !g->closing && !g->stream;
	metrics_gauge(m, "penstock_streams", "Streams that are open.", streams->count);
	metrics_gauge(m, "penstock_streams_opening", "Streams that are being opened or indexed.",
		opening);
	metrics_stream_counters(m, streams);
	metrics_stream_states(m, streams);
	metrics_verdicts(m, streams);
}

/* ---- each trainer ---- */

typedef void metrics_trainer_fn(struct metrics *m, const char *labels, const struct member *member);

static void metrics_trainer_held(struct metrics *m, const char *labels, const struct member *member)
{
	metrics_u64(m, "", labels, session_held(member));
}

static void metrics_trainer_given(
	struct metrics *m, const char *labels, const struct member *member)
{
	metrics_u64(m, "_total", labels, member->given);
}

static void metrics_trainer_blocks(
	struct metrics *m, const char *labels, const struct member *member)
{
	metrics_u64(m, "", labels, member->blocks_since_ns != 0);
}

static void metrics_trainer_waits(
	struct metrics *m, const char *labels, const struct member *member)
{
	metrics_ratio(m, labels, account_member_waits(member));
}

static void metrics_each_trainer(
	struct metrics *m, const struct metrics_streams *streams, metrics_trainer_fn *sample)
{
	for (uint32_t i = 0; i < streams->count; i++)
		list_each (t, &streams->of[i].group->members, struct member, of_group) {
			char labels[128];
			(void)snprintf(labels, sizeof labels,
				"id=\"%" PRIu32 "\",trainer=\"%" PRIu64 "\",pid=\"%d\"",
				streams->of[i].group->extent_number, t->number, t->client->pid);
			sample(m, labels, t);
		}
}

static void metrics_trainers(struct metrics *m, const struct metrics_streams *streams)
{
	metrics_family(
		m, "penstock_trainer_held_batches", "gauge", "", "Batches that the trainer holds.");
	metrics_each_trainer(m, streams, metrics_trainer_held);
	metrics_family(m, "penstock_trainer_batches", "counter", "", "Batches that it was given.");
	metrics_each_trainer(m, streams, metrics_trainer_given);
	metrics_family(m, "penstock_trainer_blocks", "gauge", "",
		"1 while it holds up other trainers of its group, else 0.");
	metrics_each_trainer(m, streams, metrics_trainer_blocks);
	metrics_family(m, "penstock_trainer_waits_ratio", "gauge", "ratio",
		"Share of the last ten seconds in which it held nothing and waited for a batch.");
	metrics_each_trainer(m, streams, metrics_trainer_waits);
}

/* ---- what the flight recorder's witness measured ---- */

static bool metrics_is_known(uint64_t value)
{
	return value != UINT64_MAX;
}

/* A family of one sample, or of none if the value is not known. */
static void metrics_measured(struct metrics *m, const char *name, const char *help, uint64_t bytes)
{
	metrics_family(m, name, "gauge", "bytes", help);
	if (metrics_is_known(bytes))
		metrics_u64(m, "", "", bytes);
}

static void metrics_pressure(struct metrics *m, const struct record_pressure *pressure)
{
	const struct {
		const char *labels;
		float per_cent;
	} shares[] = {{"resource=\"cpu\",share=\"some\"", pressure->cpu_some},
		{"resource=\"memory\",share=\"some\"", pressure->memory_some},
		{"resource=\"memory\",share=\"full\"", pressure->memory_full},
		{"resource=\"io\",share=\"some\"", pressure->io_some},
		{"resource=\"io\",share=\"full\"", pressure->io_full}};
	metrics_family(m, "penstock_pressure_ratio", "gauge", "ratio",
		"PSI: share of the last ten seconds in which some, or all, waited for a resource; "
		"of the daemon's cgroup where it says, else of the machine.");
	for (size_t i = 0; i < UTIL_COUNT(shares); i++)
		if (shares[i].per_cent >= 0)
			metrics_ratio(m, shares[i].labels, (double)shares[i].per_cent / 100);
}

static void metrics_oom_kills(struct metrics *m, const struct record_machine *machine)
{
	metrics_family(m, "penstock_oom_kills", "counter", "",
		"Processes that the kernel killed for memory: on the machine since it started, in "
		"the daemon's cgroup since that was made.");
	if (metrics_is_known(machine->oom_kills))
		metrics_u64(m, "_total", "scope=\"machine\"", machine->oom_kills);
	if (metrics_is_known(machine->cgroup.oom_kills))
		metrics_u64(m, "_total", "scope=\"cgroup\"", machine->cgroup.oom_kills);
}

static void metrics_machine(struct metrics *m, const struct server *server)
{
	static const struct record_machine unknown = {.available = UINT64_MAX,
		.total = UINT64_MAX,
		.swap_free = UINT64_MAX,
		.oom_kills = UINT64_MAX,
		.disk_free = UINT64_MAX,
		.cgroup = {.used = UINT64_MAX, .limit = UINT64_MAX, .oom_kills = UINT64_MAX},
		.pressure = {-1, -1, -1, -1, -1}};
	const struct recorder *recorder = &server->recorder;
	const struct record_machine *machine =
		recorder->has_machine ? &recorder->machine : &unknown;
	metrics_gauge(m, "penstock_recorder_up", "1 while the flight recorder runs, else 0.",
		recorder->witness != NULL);
	metrics_counter(m, "penstock_recorder_dropped_records",
		"Records for which the flight recorder had no room.", recorder_dropped(recorder));
	metrics_measured(m, "penstock_resident_bytes", "Resident memory of penstockd.",
		recorder->resident_bytes);
	metrics_measured(
		m, "penstock_machine_memory_bytes", "Memory of the machine.", machine->total);
	metrics_measured(m, "penstock_machine_memory_available_bytes",
		"Memory of the machine that is available.", machine->available);
	metrics_measured(
		m, "penstock_machine_swap_free_bytes", "Swap that is free.", machine->swap_free);
	metrics_measured(m, "penstock_cgroup_memory_used_bytes",
		"Memory of the daemon's cgroup, or of the one above it with the tightest limit.",
		machine->cgroup.used);
	metrics_measured(m, "penstock_cgroup_memory_limit_bytes",
		"The limit of that cgroup, if it has one.", machine->cgroup.limit);
	metrics_measured(m, "penstock_recorder_disk_free_bytes",
		"Room on the disk that the flight recorder writes to.", machine->disk_free);
	metrics_oom_kills(m, machine);
	metrics_pressure(m, &machine->pressure);
}

/* ---- devices ---- */

static char *metrics_gpu_labels(const struct record_gpu *gpu, char labels[METRICS_LABELS])
{
	char *at = labels + sprintf(labels, "device=\"%" PRIu32 "\",", gpu->device);
	(void)metrics_label(at, "gpu", gpu->name);
	return labels;
}

static void metrics_gpus(struct metrics *m, const struct recorder *recorder)
{
	char labels[METRICS_LABELS];
	metrics_family(m, "penstock_gpu_memory_bytes", "gauge", "bytes",
		"Memory of each device, by NVML.");
	for (unsigned i = 0; i < recorder->gpus; i++)
		metrics_u64(m, "", metrics_gpu_labels(&recorder->gpu[i], labels),
			recorder->gpu[i].total);
	metrics_family(m, "penstock_gpu_memory_used_bytes", "gauge", "bytes",
		"Memory of each device that processes use.");
	for (unsigned i = 0; i < recorder->gpus; i++)
		metrics_u64(m, "", metrics_gpu_labels(&recorder->gpu[i], labels),
			recorder->gpu[i].used);
	metrics_family(m, "penstock_gpu_busy_ratio", "gauge", "ratio",
		"Share of NVML's last sample period in which a kernel ran.");
	for (unsigned i = 0; i < recorder->gpus; i++)
		if (recorder->gpu[i].busy >= 0)
			metrics_ratio(m, metrics_gpu_labels(&recorder->gpu[i], labels),
				(double)recorder->gpu[i].busy);
}

/* ---- trainers' processes ---- */

/* One connection stands for its process: a series for each connection would count memory twice. */
static bool metrics_is_first(const struct server *server, const struct client *client)
{
	list_each (c, &server->clients, struct client, node) {
		if (c == client)
			break;
		if (c->pid == client->pid && c->record.measured)
			return false;
	}
	return client->record.measured;
}

typedef uint64_t metrics_process_fn(const struct client *client);

static uint64_t metrics_process_resident(const struct client *client)
{
	return client->record.resident_bytes;
}

static uint64_t metrics_process_gpu(const struct client *client)
{
	return client->record.gpu_bytes;
}

static uint64_t metrics_process_gpu_peak(const struct client *client)
{
	return metrics_is_known(client->record.gpu_bytes) ? client->gpu_peak_bytes : UINT64_MAX;
}

static void metrics_each_process(
	struct metrics *m, const struct server *server, metrics_process_fn *value)
{
	list_each (c, &server->clients, struct client, node) {
		char label[32];
		if (!metrics_is_first(server, c) || !metrics_is_known(value(c)))
			continue;
		(void)snprintf(label, sizeof label, "pid=\"%d\"", c->pid);
		metrics_u64(m, "", label, value(c));
	}
}

static void metrics_processes(struct metrics *m, const struct server *server)
{
	list_each (c, &server->clients, struct client, node)
		if (c->record.measured && metrics_is_known(c->record.gpu_bytes))
			c->gpu_peak_bytes = UTIL_MAX(c->gpu_peak_bytes, c->record.gpu_bytes);
	metrics_family(m, "penstock_trainer_resident_bytes", "gauge", "bytes",
		"Resident memory of a trainer's process.");
	metrics_each_process(m, server, metrics_process_resident);
	metrics_family(m, "penstock_trainer_gpu_bytes", "gauge", "bytes",
		"Memory of all devices that it uses, by NVML.");
	metrics_each_process(m, server, metrics_process_gpu);
	metrics_family(m, "penstock_trainer_gpu_peak_bytes", "gauge", "bytes",
		"The most device memory of it that was seen, once a second.");
	metrics_each_process(m, server, metrics_process_gpu_peak);
}

char *metrics_text(struct server *server)
{
	struct metrics m = {0};
	struct fetch_stats fetch;
	struct totals totals;
	struct metrics_streams streams = metrics_look(server);
	if (!streams.of)
		return NULL;
	fetch_stats_read(server->fetch, &fetch);
	totals_read(server, &totals);
	metrics_daemon(&m, server);
	metrics_http(&m, server);
	metrics_memory(&m, server);
	metrics_machine(&m, server);
	metrics_gpus(&m, &server->recorder);
	metrics_totals(&m, server);
	metrics_stages(&m, &totals, &fetch);
	metrics_fetch(&m, &fetch);
	metrics_remote(&m);
	metrics_histograms(&m, server);
	metrics_streams(&m, server, &streams);
	metrics_trainers(&m, &streams);
	metrics_processes(&m, server);
	text_put(&m.text, "# EOF\n");
	free(streams.of);
	return text_take(&m.text);
}
