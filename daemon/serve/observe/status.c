/* status: what the daemon says of itself, as JSON. */
#include "serve/observe/observe.h"

#include "base/clock.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "definition/label_keys.h"
#include "proto/jsontext.h"
#include "remote/remote.h"
#include "serve/confined.h"
#include "serve/session/handouts.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STATUS_PEERS = 64 };

static const char *status_io(enum fetch_io io)
{
	static const char *const names[] = {[FETCH_IO_AUTO] = "auto",
		[FETCH_IO_BUFFERED] = "buffered",
		[FETCH_IO_DIRECT] = "direct"};
	return names[io];
}

static void status_cache(
	struct jsontext *json, const struct fetch_stats *stats, enum fetch_cache mode)
{
	static const char *const names[] = {
		[FETCH_CACHE_AUTO] = "auto", [FETCH_CACHE_ON] = "on", [FETCH_CACHE_OFF] = "off"};
	jsontext_object(json, "cache");
	jsontext_string(json, "mode", names[mode]);
	jsontext_u64(json, "hits", stats->cache.hits);
	jsontext_u64(json, "misses", stats->cache.misses);
	jsontext_u64(json, "shared", stats->shared);
	jsontext_u64(json, "samples", stats->cache.samples);
	jsontext_u64(json, "bytes", stats->cache.bytes);
	jsontext_u64(json, "shrinks", stats->cache.shrinks);
	jsontext_end(json);
}

static void status_remote_cache(struct jsontext *json, const struct remote_stats *stats)
{
	jsontext_object(json, "cache");
	jsontext_u64(json, "size", stats->cache_size);
	jsontext_u64(json, "used", stats->cache_used);
	jsontext_u64(json, "stored_bytes", stats->cache_stored_bytes);
	jsontext_u64(json, "unstored_bytes", stats->cache_unstored_bytes);
	jsontext_u64(json, "broken_blocks", stats->cache_broken_blocks);
	jsontext_u64(json, "dropped_objects", stats->cache_dropped_objects);
	jsontext_u64(json, "dropped_bytes", stats->cache_dropped_bytes);
	jsontext_end(json);
}

/* By reason, those that happened. */
static void status_retried(struct jsontext *json, const struct remote_stats *stats)
{
	jsontext_object(json, "retried");
	for (unsigned reason = 0; reason < REMOTE_RETRIES; reason++)
		if (stats->retried[reason])
			jsontext_u64(json, remote_retry_name(reason), stats->retried[reason]);
	jsontext_end(json);
}

/* Only where a URL was opened. */
static void status_remote(struct jsontext *json)
{
	struct remote_stats stats;
	remote_stats_read(&stats);
	if (!stats.started)
		return;
	const struct {
		const char *key;
		uint64_t count;
	} counts[] = {{"requests", stats.requests}, {"bytes", stats.bytes},
		{"wasted_bytes", stats.wasted_bytes}, {"done", stats.done},
		{"errors", stats.errors}, {"canceled", stats.canceled}, {"retries", stats.retries},
		{"hedges", stats.hedges}, {"hedges_won", stats.hedges_won},
		{"slowdowns", stats.slowdowns}, {"connects", stats.connects},
		{"connections", stats.connections}, {"connections_limit", stats.connections_limit},
		{"queued", stats.queued}, {"reads", stats.reads}, {"hit_bytes", stats.hit_bytes},
		{"miss_bytes", stats.miss_bytes}, {"shared_bytes", stats.shared_bytes}};
	jsontext_object(json, "remote");
	for (size_t i = 0; i < UTIL_COUNT(counts); i++)
		jsontext_u64(json, counts[i].key, counts[i].count);
	status_retried(json, &stats);
	jsontext_number(json, "first_byte_p50_s", (double)stats.first_byte_p50_ns * 1e-9, 6);
	jsontext_number(json, "first_byte_p99_s", (double)stats.first_byte_p99_ns * 1e-9, 6);
	jsontext_number(json, "waiting_s", (double)stats.waiting_ns * 1e-9, 3);
	jsontext_number(json, "throttled_s", (double)stats.throttled_ns * 1e-9, 3);
	jsontext_string(json, "waiting", stats.waiting);
	if (stats.cache)
		status_remote_cache(json, &stats);
	jsontext_end(json);
}

static void status_broken(struct jsontext *json, const struct stream_stats *stats)
{
	jsontext_object(json, "broken");
	for (unsigned reason = 0; reason < STREAM_REASONS; reason++)
		if (stats->broken[reason])
			jsontext_u64(json, stream_reason_name(reason), stats->broken[reason]);
	jsontext_end(json);
}

static void status_decode_stages(struct jsontext *json, const struct stream_stats *stats)
{
	jsontext_object(json, "decode_stages");
	for (int i = 0; i < DECODE_STAGES; i++)
		jsontext_number(json, decode_stage_name((enum decode_stage)i),
			(double)stats->stage_ns[i] * 1e-9, 6);
	jsontext_end(json);
}

static void status_fallbacks(struct jsontext *json, const struct stream_stats *stats)
{
	jsontext_object(json, "fallbacks");
	for (unsigned reason = 1; reason < STEPBACKS; reason++)
		if (stats->fallbacks[reason])
			jsontext_u64(json, stepback_name((enum stepback)reason),
				stats->fallbacks[reason]);
	jsontext_end(json);
}

static void status_entry_points(struct jsontext *json, const struct stream_stats *stats)
{
	jsontext_object(json, "checkpoints");
	jsontext_u64(json, "used", stats->entry_points_used);
	jsontext_u64(json, "made", stats->entry_points_made);
	jsontext_u64(json, "dropped", stats->entry_points_dropped);
	jsontext_end(json);
}

static void status_bottleneck(struct jsontext *json, const struct verdict *verdict)
{
	const struct {
		const char *key;
		double share;
	} shares[] = {{"share", verdict->share}, {"trainer_wait", verdict->trainer_wait},
		{"slots_full", verdict->slots_full}, {"workers_idle", verdict->workers_idle},
		{"permit_wait", verdict->permit_wait}, {"cpu_busy", verdict->cpu_busy},
		{"cpu_stolen", verdict->cpu_stolen}, {"read_busy", verdict->read_busy},
		{"buffers_full", verdict->buffers_full}};
	jsontext_object(json, "bottleneck");
	jsontext_string(json, "kind", verdict_kind_name(verdict->kind));
	for (size_t i = 0; i < UTIL_COUNT(shares); i++)
		jsontext_number(json, shares[i].key, shares[i].share, 4);
	jsontext_number(json, "reads_under_way", verdict->reads_under_way, 2);
	jsontext_number(json, "read_bytes_per_s", verdict->read_bytes_per_s, 0);
	jsontext_number(json, "read_bytes_per_s_best", verdict->read_bytes_per_s_best, 0);
	if (verdict->more_cpus < 0)
		jsontext_raw(json, "more_cpus", "null");
	else
		jsontext_number(json, "more_cpus", verdict->more_cpus, 0);
	jsontext_number(json, "connections", verdict->connections, 1);
	jsontext_number(json, "slowdowns", verdict->slowdowns, 4);
	jsontext_number(json, "first_byte_p99_ms", 1e3 * verdict->first_byte_p99_s, 3);
	if (verdict->more_connections < 0)
		jsontext_raw(json, "more_connections", "null");
	else
		jsontext_number(json, "more_connections", verdict->more_connections, 0);
	if (verdict->cpus_idle < 0)
		jsontext_raw(json, "cpus_idle", "null");
	else
		jsontext_number(json, "cpus_idle", verdict->cpus_idle, 2);
	if (verdict->pid)
		jsontext_i64(json, "pid", verdict->pid);
	else
		jsontext_raw(json, "pid", "null");
	jsontext_end(json);
}

static void status_trainers(struct jsontext *json, const struct group *group)
{
	jsontext_array(json, "trainers");
	list_each (m, &group->members, struct member, of_group) {
		jsontext_object(json, NULL);
		jsontext_i64(json, "pid", m->client->pid);
		jsontext_u64(json, "held", session_held(m));
		jsontext_u64(json, "given", m->given);
		jsontext_u64(json, "epoch", m->epoch);
		jsontext_u64(json, "batch", m->batch);
		jsontext_bool(json, "blocks", m->blocks_since_ns != 0);
		jsontext_number(json, "held_s",
			m->blocks_since_ns ? (double)(clock_ns() - m->blocks_since_ns) * 1e-9 : 0,
			1);
		jsontext_number(json, "waits", account_member_waits(m), 4);
		recorder_status_trainer(json, m->client);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static void status_share(struct jsontext *json, const struct stream_spec *spec)
{
	jsontext_string(json, "share", spec->share == SPEC_SHARE_SPLIT ? "split" : "all");
	jsontext_u64(json, "rank", spec->rank);
	jsontext_u64(json, "world_size", spec->world_size);
	jsontext_u64(json, "wait_for", spec->wait_for);
	jsontext_string(json, "laggard", spec->laggard == SPEC_LAGGARD_DETACH ? "detach" : "block");
}

static void status_opening(struct jsontext *json, const struct opening *opening)
{
	jsontext_string(json, "state", "indexing");
	if (!opening)
		return;
	jsontext_u64(json, "indexed_samples",
		atomic_load_explicit(&opening->samples, memory_order_relaxed));
	jsontext_u64(
		json, "indexed_bytes", atomic_load_explicit(&opening->bytes, memory_order_relaxed));
	jsontext_u64(
		json, "total_bytes", atomic_load_explicit(&opening->total, memory_order_relaxed));
}

/* How long trainers waited for batches lately; null if none did. */
static void status_waits(struct jsontext *json, const struct group *group)
{
	struct histogram waits = group->account.waits[0];
	histogram_merge(&waits, &group->account.waits[1]);
	if (!waits.count) {
		jsontext_raw(json, "waits_ms", "null");
		return;
	}
	jsontext_object(json, "waits_ms");
	jsontext_number(json, "p50", histogram_quantile_ns(&waits, 0.5) * 1e-6, 3);
	jsontext_number(json, "p99", histogram_quantile_ns(&waits, 0.99) * 1e-6, 3);
	jsontext_end(json);
}

static void status_verdict(struct jsontext *json, const struct group *group)
{
	struct verdict verdict;
	bottleneck_find(group, &verdict);
	jsontext_string(json, "verdict", verdict.sentence);
	jsontext_string(json, "remedy", verdict.remedy);
	status_bottleneck(json, &verdict);
}

/* For trainers, whose users may never see the daemon's log. */
static void status_warnings(struct jsontext *json, const struct group *group)
{
	const char *text;
	jsontext_array(json, "warnings");
	for (uint32_t i = 0; (text = stream_warning(group->stream, i)); i++)
		jsontext_string(json, NULL, text);
	jsontext_end(json);
}

/* States with these fingerprints fit too: see concat_earlier. */
static void status_earlier(struct jsontext *json, const struct group *group)
{
	char text[24];
	uint64_t was;
	jsontext_array(json, "earlier_fingerprints");
	for (uint32_t i = 0; (was = concat_earlier(stream_samples_of(group->stream), i)); i++) {
		(void)snprintf(text, sizeof text, "%016" PRIx64, was);
		jsontext_string(json, NULL, text);
	}
	jsontext_end(json);
}

/* How many samples of an epoch each bucket has, in the order of "buckets". */
static void status_buckets(struct jsontext *json, const struct buckets *buckets)
{
	if (!buckets->count)
		return;
	jsontext_array(json, "bucket_samples");
	for (uint32_t i = 0; i < buckets->count; i++)
		jsontext_u64(json, NULL, buckets->rows[i]);
	jsontext_end(json);
}

/* The samples of the dataset, and those of an epoch, which differ if the stream has `indices`. */
static void status_samples(struct jsontext *json, const struct group *group)
{
	jsontext_u64(json, "samples", concat_samples(stream_samples_of(group->stream)));
	jsontext_u64(json, "order_samples", stream_samples(group->stream));
	status_buckets(json, stream_buckets(group->stream));
	jsontext_bool(
		json, "labelled", dataset_labelled(stream_samples_of(group->stream)->dataset[0]));
	jsontext_u64(json, "classes", dataset_classes(stream_dataset(group->stream)));
	status_warnings(json, group);
	status_earlier(json, group);
}

/* Only of a stream that has fields. */
static void status_fields(
	struct jsontext *json, const struct stream_spec *spec, const struct stream_stats *stats)
{
	if (!spec->fields.count)
		return;
	jsontext_object(json, "fields");
	jsontext_array(json, "names");
	for (uint32_t i = 0; i < spec->fields.count; i++)
		jsontext_string(json, NULL, spec->fields.at[i].name);
	jsontext_end(json);
	jsontext_u64(json, "bytes", stats->field_bytes);
	jsontext_end(json);
}

static void status_running(struct jsontext *json, struct group *group)
{
	struct stream_stats stats;
	const struct extent *extent = stream_extent(group->stream);
	const struct member *first = list_first(&group->members, struct member, of_group);
	stream_stats(group->stream, &stats);
	jsontext_string(json, "state",
		group->started ? "serving"
		: group->begun ? "waiting for trainers"
			       : "waiting for those who come back");
	status_samples(json, group);
	jsontext_u64(json, "epoch", first ? first->epoch : 0);
	jsontext_u64(json, "batch", first ? first->batch : 0);
	jsontext_u64(json, "batches", stream_batches(group->stream));
	jsontext_u64(json, "slots", extent->slots);
	jsontext_u64(json, "slots_free", stats.slots_free);
	jsontext_u64(json, "slots_filling", stats.slots_filling);
	jsontext_u64(json, "ready", stats.slots_ready);
	jsontext_u64(json, "leased", stats.slots_leased);
	jsontext_u64(json, "slot_bytes", extent->stride);
	jsontext_bool(json, "locked", extent->locked);
	jsontext_bool(json, "huge_pages", extent->huge_pages);
	jsontext_u64(json, "images", stats.images);
	jsontext_number(json, "rate", account_rate(group), 1);
	status_waits(json, group);
	status_decode_stages(json, &stats);
	status_fallbacks(json, &stats);
	status_entry_points(json, &stats);
	status_broken(json, &stats);
	status_fields(json, &group->spec, &stats);
	jsontext_string(json, "notice", stream_notice(group->stream));
	status_verdict(json, group);
}

/* Which samples are read. Defaults are left out. */
static void status_sampling(struct jsontext *json, const struct stream_spec *spec)
{
	const struct sampling *sampling = &spec->sampling;
	const struct {
		const char *key, *text;
	} texts[] = {{"indices", spec->indices}, {"split", sampling->split},
		{"weights", sampling->weights}};
	for (size_t i = 0; i < UTIL_COUNT(texts); i++)
		if (texts[i].text[0])
			jsontext_string(json, texts[i].key, texts[i].text);
	if (sampling->repeats > 1)
		jsontext_u64(json, "repeats", sampling->repeats);
	if (sampling->epoch_length)
		jsontext_u64(json, "epoch_length", sampling->epoch_length);
	if (sampling->per_class.classes)
		sampling_json_per_class(json, "sampling", &sampling->per_class);
	if (sampling->sources.count)
		sampling_json_sources(json, "sources", &sampling->sources);
	label_keys_json(json, "labels", &spec->labels);
	if (spec->columns.image[0])
		jsontext_string(json, "image_column", spec->columns.image);
	if (spec->columns.label[0])
		jsontext_string(json, "label_column", spec->columns.label);
	if (spec->columns.label_offset)
		jsontext_i64(json, "label_offset", spec->columns.label_offset);
	if (spec->class_order != CLASS_ORDER_BYTEWISE)
		jsontext_string(json, "class_order", spec_word(spec, SPEC_KEY_class_order));
	if (spec->nested)
		jsontext_bool(json, "nested", true);
}

static void status_pixels(struct jsontext *json, const struct stream_spec *spec)
{
	jsontext_string(json, "decode", spec->decode == SPEC_DECODE_FAST ? "fast" : "exact");
	jsontext_string(json, "interpolation", weights_filter_names[spec->interpolation]);
	if (spec->transforms.count)
		transforms_json(json, "transforms", &spec->transforms);
	jsontext_u64(json, "views", spec->shape.views);
	jsontext_string(json, "dtype", shape_dtype_names[spec->shape.dtype]);
	jsontext_string(json, "layout", shape_layout_names[spec->shape.layout]);
	if (spec->views.groups)
		views_json(json, "view_groups", &spec->views);
	if (spec->buckets.count)
		bucket_keys_json(json, "buckets", &spec->buckets);
	if (spec->shape.sizes.count)
		shape_json_sizes(json, "image_sizes", &spec->shape.sizes, spec->image_size);
}

static void status_group(struct jsontext *json, struct group *group)
{
	const struct stream_spec *spec = &group->spec;
	char differs[DIFFERS_TEXT];
	jsontext_object(json, NULL);
	jsontext_string(json, "name", spec->name);
	jsontext_string(json, "source", spec->source);
	jsontext_string(json, "group", group->name[0] == '\n' ? "" : group->name);
	differs_text(group, differs, sizeof differs);
	jsontext_string(json, "differs", differs);
	jsontext_u64(json, "batch_size", spec->batch_size);
	shape_json_size(json, "image_size", spec->image_size);
	status_pixels(json, spec);
	status_sampling(json, spec);
	jsontext_bool(json, "train", spec->train);
	jsontext_bool(json, "shuffle", spec->shuffle != SHUFFLE_NONE);
	if (spec->shuffle == SHUFFLE_BLOCKS)
		jsontext_u64(json, "window", spec->window);
	jsontext_u64(json, "seed", spec->seed);
	if (spec->salt[0])
		jsontext_string(json, "salt", spec->salt);
	status_share(json, spec);
	if (group->stream)
		status_running(json, group);
	else
		status_opening(json, group->opening);
	status_trainers(json, group);
	jsontext_end(json);
}

static void status_memory(struct jsontext *json, struct server *server)
{
	struct ledger_line line[LEDGER_LINES];
	int n = ledger_snapshot(&server->ledger, line);
	jsontext_object(json, "memory");
	jsontext_u64(json, "budget", server->ledger.budget);
	jsontext_u64(json, "reserved", server->ledger.budget - ledger_free(&server->ledger));
	jsontext_array(json, "lines");
	for (int i = 0; i < n; i++) {
		jsontext_object(json, NULL);
		jsontext_string(json, "name", line[i].name);
		jsontext_u64(json, "bytes", line[i].bytes);
		jsontext_end(json);
	}
	jsontext_end(json);
	jsontext_end(json);
}

/* Processes that hold something, the newest first; not all, so that a status stays readable. */
static void status_peers(struct jsontext *json, const struct server *server)
{
	static const char *const names[PEER_KINDS] = {[PEER_CLIENTS] = "clients",
		[PEER_STREAMS] = "streams",
		[PEER_OPENINGS] = "openings",
		[PEER_KEPT] = "kept",
		[PEER_ANSWERS] = "answers"};
	unsigned left = STATUS_PEERS;
	jsontext_u64(json, "kept_bytes", handouts_bytes(server));
	jsontext_array(json, "peers");
	for (const struct peer *p = server->peers.peers; p && left; p = p->next, left--) {
		jsontext_object(json, NULL);
		jsontext_i64(json, "pid", p->name.pid);
		jsontext_u64(json, "uid", p->name.uid);
		for (int kind = 0; kind < PEER_KINDS; kind++)
			jsontext_u64(json, names[kind], p->held[kind]);
		jsontext_end(json);
	}
	jsontext_end(json);
}

/* CPU seconds of the whole daemon since it started, by stage. */
static void status_stages(
	struct jsontext *json, const struct fetch_stats *fetch, const struct totals *totals)
{
	jsontext_object(json, "stages");
	jsontext_number(json, "read", (double)fetch->cpu_ns * 1e-9, 6);
	jsontext_number(json, "decode", (double)totals->streams.decode_ns * 1e-9, 6);
	jsontext_number(json, "pixel", (double)totals->streams.pixel_ns * 1e-9, 6);
	jsontext_number(json, "serve", (double)clock_thread_cpu_ns() * 1e-9, 6);
	jsontext_end(json);
}

/* What the whole daemon did since it started, and what holds it up. */
static void status_totals(
	struct jsontext *json, const struct server *server, const struct fetch_stats *fetch)
{
	struct totals totals;
	char verdict[2 * SPEC_NAME + VERDICT_TEXT], remedy[VERDICT_TEXT];
	totals_read(server, &totals);
	bottleneck_server(server, verdict, sizeof verdict, remedy);
	jsontext_u64(json, "images", totals.streams.images);
	jsontext_u64(json, "batches", totals.streams.batches);
	status_stages(json, fetch, &totals);
	jsontext_string(json, "verdict", verdict);
	jsontext_string(json, "remedy", remedy);
}

/* If they were not kept, a notice says why. */
static const char *status_kept(const struct server *server)
{
	struct totals totals;
	if (!server->config->entry_points)
		return "off";
	if (!server->entry_points_lost)
		return "kept";
	totals_read(server, &totals);
	return totals.streams.entry_points_made ? "partly kept" : "not kept";
}

/* Empty where nothing is placed. */
static void status_numa(struct jsontext *json, const struct server *server)
{
	const struct numa *numa = &server->numa;
	jsontext_array(json, "numa");
	for (unsigned i = 0; i < numa->count; i++) {
		unsigned streams = 0;
		list_each (g, &server->groups, struct group, node)
			streams += !g->closing && g->numa_node == (int)i;
		jsontext_object(json, NULL);
		jsontext_u64(json, "node", numa->node[i].number);
		jsontext_u64(json, "cpus", numa->node[i].cpus);
		jsontext_u64(json, "workers", workers_placed(server->workers, numa, i));
		jsontext_u64(json, "reader_threads", fetch_placed(server->fetch, numa, i));
		jsontext_u64(json, "streams", streams);
		jsontext_end(json);
	}
	jsontext_end(json);
}

char *status_server(struct server *server)
{
	struct jsontext json = {0};
	struct fetch_stats fetch;
	fetch_stats_read(server->fetch, &fetch);
	jsontext_object(&json, NULL);
	jsontext_string(&json, "version", PENSTOCK_VERSION);
	jsontext_i64(&json, "pid", getpid());
	jsontext_number(&json, "uptime_s", (double)(clock_ns() - server->started_ns) * 1e-9, 1);
	jsontext_string(&json, "socket", server->socket);
	jsontext_string(&json, "config", server->config->file);
	confined_status(&json, server);
	jsontext_bool(&json, "draining", server->draining);
	jsontext_u64(&json, "threads", workers_threads(server->workers));
	/* Looked up once a second, since that reads files. */
	jsontext_u64(&json, "cpus", server->account.cpus ? server->account.cpus : cpu_available());
	status_numa(&json, server);
	jsontext_string(&json, "reader", fetch_describe(server->fetch));
	jsontext_string(&json, "io", status_io(server->config->io));
	status_cache(&json, &fetch, server->config->cache);
	status_remote(&json);
	jsontext_bool(&json, "checkpoints", server->config->entry_points);
	jsontext_string(&json, "checkpoints_kept", status_kept(server));
	jsontext_u64(&json, "read_bytes", fetch.bytes);
	jsontext_u64(&json, "reads_in_flight", fetch.inflight);
	jsontext_u64(&json, "clients", server->client_count);
	status_peers(&json, server);
	jsontext_string(&json, "http", server->publish.address ? server->publish.address : "");
	status_totals(&json, server, &fetch);
	recorder_status(&json, server);
	status_memory(&json, server);
	jsontext_array(&json, "streams");
	list_each (g, &server->groups, struct group, node)
		if (!g->closing)
			status_group(&json, g);
	jsontext_end(&json);
	jsontext_array(&json, "notices");
	for (uint32_t i = 0; i < server->notices.count; i++)
		jsontext_string(&json, NULL, server->notices.text[i]);
	jsontext_end(&json);
	jsontext_end(&json);
	return json.text.bytes;
}

char *status_stream(struct group *group)
{
	struct jsontext json = {0};
	struct server *server = group->server;
	struct stream_stats stats;
	struct fetch_stats fetch;
	struct workers_stats pool;
	stream_stats(group->stream, &stats);
	fetch_stats_read(server->fetch, &fetch);
	workers_stats_read(server->workers, &pool);
	jsontext_object(&json, NULL);
	jsontext_u64(&json, "threads", workers_threads(server->workers));
	jsontext_string(&json, "reader", fetch_describe(server->fetch));
	jsontext_string(&json, "io", status_io(server->config->io));
	status_cache(&json, &fetch, server->config->cache);
	status_remote(&json);
	status_pixels(&json, &group->spec);
	status_sampling(&json, &group->spec);
	status_samples(&json, group);
	jsontext_u64(&json, "batches", stats.batches);
	jsontext_u64(&json, "images", stats.images);
	jsontext_object(&json, "stages");
	jsontext_number(&json, "read", (double)fetch.cpu_ns * 1e-9, 6);
	jsontext_number(&json, "decode", (double)stats.decode_ns * 1e-9, 6);
	jsontext_number(&json, "pixel", (double)stats.pixel_ns * 1e-9, 6);
	jsontext_number(&json, "serve", (double)clock_thread_cpu_ns() * 1e-9, 6);
	jsontext_end(&json);
	status_decode_stages(&json, &stats);
	status_fallbacks(&json, &stats);
	status_entry_points(&json, &stats);
	status_broken(&json, &stats);
	status_fields(&json, &group->spec, &stats);
	jsontext_object(&json, "waits");
	jsontext_number(&json, "trainer_s", (double)group->account.trainer_wait_ns * 1e-9, 6);
	jsontext_number(&json, "slots_full_s", (double)group->account.slots_full_ns * 1e-9, 6);
	jsontext_number(&json, "workers_s", (double)pool.idle_ns * 1e-9, 6);
	jsontext_end(&json);
	jsontext_string(&json, "notice", stream_notice(group->stream));
	status_verdict(&json, group);
	jsontext_end(&json);
	return json.text.bytes;
}

void status_wait(struct group *group, char *buffer, size_t room)
{
	struct stream_stats stats;
	struct member *holder = NULL;
	const unsigned threads = workers_threads(group->server->workers);
	stream_stats(group->stream, &stats);
	list_each (m, &group->members, struct member, of_group)
		if (!holder || session_held(m) > session_held(holder))
			holder = m;
	if (!group->started)
		(void)snprintf(buffer, room,
			"the group waits for %u trainers before its first batch; %u came to %s",
			group->spec.wait_for, session_group_present(group), group->name);
	else if (stats.slots_free + stats.slots_filling == 0 && holder && holder->reader.held)
		(void)snprintf(buffer, room, "trainer %d holds %d of %u batches and releases none",
			holder->client->pid, session_held(holder),
			stream_extent(group->stream)->slots);
	else if (stats.parked)
		(void)snprintf(buffer, room,
			"indexing: images of %.300s were rewritten in place, and %llu samples wait "
			"for its new index",
			group->spec.source, (unsigned long long)stats.parked);
	else if (stats.queued)
		(void)snprintf(buffer, room, "decoding: %llu row%s left to decode with %u worker%s",
			(unsigned long long)stats.queued, stats.queued == 1 ? "" : "s", threads,
			threads == 1 ? "" : "s");
	else if (stats.reading)
		(void)snprintf(buffer, room,
			"reading: %llu sample%s of %s %s being read from storage",
			(unsigned long long)stats.reading, stats.reading == 1 ? "" : "s",
			group->spec.source, stats.reading == 1 ? "is" : "are");
	else
		(void)snprintf(buffer, room, "nothing is in flight: %llu slots ready, %llu held",
			(unsigned long long)stats.slots_ready,
			(unsigned long long)stats.slots_leased);
}
