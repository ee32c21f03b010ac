/* top_head: the daemon as a whole; see top_view.h. */
#include "client/cli/watch/top_parts.h"

#include "base/util.h"
#include "client/cli/answer.h"
#include "client/cli/bar.h"
#include "client/cli/table.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* A fact is a label, a bar and a few words; facts share a line while they fit. */
enum {
	HEAD_NAME = 12,
	HEAD_LABEL = 10,
	HEAD_BAR = 6,
	HEAD_BAR_MOST = 32,
	HEAD_FACT = 40,
	HEAD_TEXT = 128
};

double top_number(const struct node *object, const char *key)
{
	return document_number(object, key, NAN);
}

double top_share(double a, double b)
{
	if (!(b > 0) || isnan(a))
		return NAN;
	return UTIL_MAX(UTIL_MIN(a / b, 1.0), 0.0);
}

double top_rate(const struct top_view *view, const char *object, const char *key)
{
	double now = top_number(object ? document_get(view->now, object) : view->now, key);
	double before = 0, seconds = top_number(view->now, "uptime_s");
	if (view->before) {
		before =
			top_number(object ? document_get(view->before, object) : view->before, key);
		seconds = view->elapsed_s;
	}
	return seconds > 0 && now >= before ? (now - before) / seconds : NAN;
}

const char *top_percent(double share, char *buffer, size_t room)
{
	buffer[0] = 0;
	if (!isnan(share))
		(void)snprintf(buffer, room, "%.0f %%", 100 * share);
	return buffer;
}

const char *top_bytes(double bytes, char *buffer, size_t room)
{
	(void)snprintf(
		buffer, room, "%s", isnan(bytes) ? "" : table_bytes(document_whole(bytes)).text);
	return buffer;
}

const char *top_count(double value, char *buffer, size_t room)
{
	(void)snprintf(buffer, room, "%s",
		isnan(value) ? "" : table_count(document_whole(value + 0.5)).text);
	return buffer;
}

const char *top_bytes_of(double used, double total, char *buffer, size_t room)
{
	char a[24], b[24];
	(void)top_bytes(used, a, sizeof a);
	(void)top_bytes(total, b, sizeof b);
	/* Prints the unit once if both numbers have the same one. */
	char *unit = strchr(a, ' '), *same = strchr(b, ' ');
	if (unit && same && strcmp(unit, same) == 0)
		*unit = 0;
	(void)snprintf(buffer, room, "%s%s%s", a, *a && *b ? " of " : "", b);
	return buffer;
}

unsigned top_wait_attr(double share)
{
	if (isnan(share))
		return PAPER_PLAIN;
	return share >= 0.3 ? PAPER_BAD : share >= 0.05 ? PAPER_WARN : PAPER_GOOD;
}

double top_waits(const struct node *stream)
{
	const struct node *trainers = document_get(stream, "trainers");
	double most = top_number(document_get(stream, "bottleneck"), "trainer_wait");
	for (size_t i = 0; isnan(most) && i < document_count(trainers); i++) {
		double one = top_number(document_at(trainers, i, NULL), "waits");
		if (!isnan(one))
			return fmax(one, 0);
	}
	return most;
}

const struct node *top_worst(const struct node *root)
{
	const struct node *streams = document_get(root, "streams"), *worst = NULL;
	double most = -1;
	for (size_t i = 0; i < document_count(streams); i++) {
		const struct node *one = document_at(streams, i, NULL);
		double waits = top_waits(one);
		if (!worst || (!isnan(waits) && waits > most)) {
			worst = one;
			most = isnan(waits) ? -1 : waits;
		}
	}
	return worst;
}

/* Appends a piece to the title if the whole piece fits; the first piece always appears. */
__attribute__((format(printf, 3, 4))) static void head_piece(
	struct paper *paper, unsigned attr, const char *format, ...)
{
	char text[HEAD_TEXT];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	int gap = paper->at ? 2 : 0;
	if (gap && paper->at + gap + paper_columns(text, paper->utf8) > paper->width)
		return;
	paper_tab(paper, paper->at + gap);
	paper_put(paper, attr, "%s", text);
}

void top_title(const struct top_view *view, struct paper *paper)
{
	char number[24];
	const struct node *root = view->now;
	const char *reader = document_text(root, "reader", ""), *io = document_text(root, "io", "");
	double threads = top_number(root, "threads");
	size_t streams = document_count(document_get(root, "streams"));
	paper_line(paper);
	head_piece(paper, PAPER_BOLD, "penstockd %s", document_text(root, "version", "?"));
	if (view->paused)
		head_piece(paper, PAPER_REVERSE, " paused ");
	head_piece(paper, PAPER_PLAIN, "pid %.0f", document_number(root, "pid", 0));
	head_piece(paper, PAPER_PLAIN, "up %s",
		table_clock(document_number(root, "uptime_s", 0)).text);
	if (document_bool(root, "draining", false))
		head_piece(paper, PAPER_WARN, "ending");
	head_piece(paper, PAPER_PLAIN, "%zu stream%s", streams, streams == 1 ? "" : "s");
	if (!isnan(threads))
		head_piece(paper, PAPER_PLAIN, "%s thread%s",
			top_count(threads, number, sizeof number), threads == 1 ? "" : "s");
	/* The page of the stream shows the part in parentheses. */
	if (*reader)
		head_piece(paper, PAPER_PLAIN, "%.*s%s%s", (int)strcspn(reader, " ("), reader,
			*io ? ", io " : "", io);
	if (!view->plain)
		head_piece(paper, PAPER_DIM, "every %g s", view->interval_s);
}

void top_gone(const struct top_view *view, struct paper *paper)
{
	if (!view->gone[0])
		return;
	paper_line(paper);
	paper_wrap(paper, PAPER_BAD, view->gone);
}

/* If there are several streams, the name of the stream precedes its sentence. */
static void head_sentence(const struct node *root, char *buffer, size_t room)
{
	const struct node *worst = top_worst(root);
	bool several = document_count(document_get(root, "streams")) > 1;
	const char *text = document_text(root, "verdict", "");
	(void)snprintf(buffer, room, "%s", text);
	if (*text || !worst)
		return;
	text = document_text(worst, "verdict", "");
	if (*text)
		(void)snprintf(buffer, room, "%s%s%s", several ? answer_name(worst) : "",
			several ? ": " : "", text);
}

/* What would help; "" if nothing is wrong, or if the daemon is older. */
static const char *head_remedy(const struct node *root)
{
	if (!document_count(document_get(root, "streams")))
		return "";
	return document_text(root, "remedy", document_text(top_worst(root), "remedy", ""));
}

void top_verdict(const struct top_view *view, struct paper *paper)
{
	char text[TOP_SENTENCE];
	head_sentence(view->now, text, sizeof text);
	if (!*text && !document_count(document_get(view->now, "streams")))
		(void)snprintf(text, sizeof text, "no stream is open");
	if (!*text)
		return;
	paper_line(paper);
	paper_wrap(paper, PAPER_BOLD, text);
	const char *remedy = head_remedy(view->now);
	if (!*remedy)
		return;
	paper_line(paper);
	paper_put(paper, PAPER_DIM, "remedy: ");
	paper_wrap(paper, PAPER_PLAIN, remedy);
}

void top_line(struct paper *paper, const char *label, unsigned attr, const char *text)
{
	if (!*text)
		return;
	paper_line(paper);
	paper_field(paper, PAPER_DIM, label, HEAD_NAME, false);
	paper_tab(paper, paper->at + 1);
	paper_wrap(paper, attr, text);
}

static unsigned head_attr(double share)
{
	return share > 0.98 ? PAPER_BAD : share > 0.9 ? PAPER_WARN : PAPER_GOOD;
}

/* `room`: columns for the whole fact. What a fact does not need makes its bar longer. */
static void head_bar(
	const struct top_view *view, struct paper *paper, unsigned attr, double share, int room)
{
	char bar[BAR_ROOM];
	int cells = UTIL_MAX(UTIL_MIN(HEAD_BAR + room - HEAD_FACT, HEAD_BAR_MOST), HEAD_BAR);
	paper_put(paper, attr, "%s", bar_share(share, cells, view->utf8, bar));
}

void top_bar_line(const struct top_view *view, struct paper *paper, const char *label, double share,
	const char *text)
{
	if (!*text)
		return;
	paper_line(paper);
	paper_field(paper, PAPER_DIM, label, HEAD_NAME, false);
	paper_tab(paper, paper->at + 1);
	if (!isnan(share)) {
		head_bar(view, paper, PAPER_GOOD, share, paper->width / 2);
		paper_tab(paper, paper->at + 1);
	}
	paper_wrap(paper, PAPER_PLAIN, text);
}

/* Facts run from left to right, then down. */
struct head_flow {
	const struct top_view *view;
	struct paper *paper;
	int abreast, put;
};

/* A fact with an empty text is unknown and not shown. `share` NAN: no bar. */
static void head_fact(
	struct head_flow *flow, const char *label, double share, unsigned attr, const char *text)
{
	struct paper *paper = flow->paper;
	if (!*text)
		return;
	int place = flow->put++ % flow->abreast, each = paper->width / flow->abreast;
	if (place == 0)
		paper_line(paper);
	paper_tab(paper, place * each);
	paper_field(paper, PAPER_DIM, label, HEAD_LABEL, false);
	paper_tab(paper, paper->at + 1);
	if (!isnan(share)) {
		head_bar(flow->view, paper, attr, share, each);
		paper_tab(paper, paper->at + 1);
	}
	int room = (place + 1) * each - paper->at - (place + 1 < flow->abreast);
	paper_field(paper, isnan(share) ? attr : PAPER_PLAIN, text, UTIL_MAX(room, 0), false);
}

/* One share of the evidence: "62 % waiting". */
static void head_evidence(struct head_flow *flow, const struct node *evidence, const char *key,
	const char *label, const char *word)
{
	char percent[24], text[HEAD_TEXT] = "";
	double share = top_number(evidence, key);
	if (!isnan(share))
		(void)snprintf(text, sizeof text, "%s %s",
			top_percent(share, percent, sizeof percent), word);
	bool waits = strcmp(key, "trainer_wait") == 0;
	head_fact(flow, label, share, waits ? top_wait_attr(share) : PAPER_PLAIN, text);
}

static void head_storage(struct head_flow *flow, const struct node *evidence)
{
	char text[HEAD_TEXT], now[24];
	double rate = top_number(evidence, "read_bytes_per_s"),
	       best = top_number(evidence, "read_bytes_per_s_best");
	if (isnan(rate))
		rate = top_rate(flow->view, NULL, "read_bytes");
	if (isnan(rate))
		return;
	if (best > 0)
		(void)top_bytes_of(rate, best, now, sizeof now);
	else
		(void)top_bytes(rate, now, sizeof now);
	(void)snprintf(text, sizeof text, "%s/s", now);
	head_fact(flow, "reading", best > 0 ? top_share(rate, best) : NAN, PAPER_PLAIN, text);
}

static void head_evidences(struct head_flow *flow)
{
	const struct node *evidence = document_get(top_worst(flow->view->now), "bottleneck");
	head_evidence(flow, evidence, "trainer_wait", "trainers", "waiting");
	head_evidence(flow, evidence, "slots_full", "slots", "all full");
	head_evidence(flow, evidence, "workers_idle", "workers", "idle");
	head_evidence(flow, evidence, "cpu_busy", "processors", "busy");
	double stolen = top_number(evidence, "cpu_stolen");
	if (stolen >= 0.005)
		head_evidence(flow, evidence, "cpu_stolen", "stolen", "of the CPU");
	double buffers = top_number(evidence, "buffers_full");
	if (buffers >= 0.005)
		head_evidence(flow, evidence, "buffers_full", "buffers", "full");
}

static const char *const head_stages[] = {"decode", "pixel", "read", "serve"};

static void head_cpu(struct head_flow *flow)
{
	char text[HEAD_TEXT];
	double sum = 0, cpus = top_number(flow->view->now, "cpus");
	bool known = false;
	for (size_t i = 0; i < UTIL_COUNT(head_stages); i++) {
		double rate = top_rate(flow->view, "stages", head_stages[i]);
		known = known || !isnan(rate);
		sum += isnan(rate) ? 0 : rate;
	}
	if (!known)
		return;
	if (cpus > 0)
		(void)snprintf(text, sizeof text, "%.2f of %.0f CPUs", sum, cpus);
	else
		(void)snprintf(text, sizeof text, "%.2f CPUs", sum);
	head_fact(flow, "CPU", top_share(sum, cpus), PAPER_GOOD, text);
}

static void head_stage_facts(struct head_flow *flow)
{
	char text[HEAD_TEXT];
	double cpus = top_number(flow->view->now, "cpus");
	for (size_t i = 0; i < UTIL_COUNT(head_stages); i++) {
		double rate = top_rate(flow->view, "stages", head_stages[i]);
		if (isnan(rate))
			continue;
		(void)snprintf(text, sizeof text, "%.2f CPUs", rate);
		head_fact(flow, head_stages[i], top_share(rate, cpus), PAPER_GOOD, text);
	}
}

static void head_memory(struct head_flow *flow)
{
	char text[HEAD_TEXT];
	const struct node *memory = document_get(flow->view->now, "memory");
	double reserved = top_number(memory, "reserved"), budget = top_number(memory, "budget");
	(void)top_bytes_of(reserved, budget, text, sizeof text);
	head_fact(flow, "ledger", top_share(reserved, budget), PAPER_GOOD, text);
	(void)top_bytes(top_number(flow->view->now, "resident_bytes"), text, sizeof text);
	head_fact(flow, "resident", NAN, PAPER_PLAIN, text);
}

static void head_cache(struct head_flow *flow)
{
	char percent[24], bytes[24], text[HEAD_TEXT];
	const struct node *cache = document_get(flow->view->now, "cache");
	double hits = top_number(cache, "hits"), misses = top_number(cache, "misses");
	/* Neither hits nor misses: the cache is unused, because reads go through the page cache. */
	if (!(hits + misses > 0))
		return;
	double rate = top_share(hits, hits + misses);
	(void)snprintf(text, sizeof text, "%s hits, %s", top_percent(rate, percent, sizeof percent),
		top_bytes(top_number(cache, "bytes"), bytes, sizeof bytes));
	head_fact(flow, "cache", rate, PAPER_GOOD, text);
}

static void head_cgroup(struct head_flow *flow)
{
	char text[HEAD_TEXT];
	const struct node *machine = document_get(flow->view->now, "machine"),
			  *cgroup = document_get(machine, "cgroup");
	double used = top_number(cgroup, "used"), limit = top_number(cgroup, "limit");
	double kills = top_number(cgroup, "oom_kills"), total = top_number(machine, "total");
	double available = top_number(machine, "available");
	(void)top_bytes_of(used, limit, text, sizeof text);
	head_fact(flow, "cgroup", top_share(used, limit), head_attr(top_share(used, limit)), text);
	(void)top_bytes_of(total - available, total, text, sizeof text);
	head_fact(flow, "machine", top_share(total - available, total),
		head_attr(top_share(total - available, total)), text);
	if (!(kills > 0))
		return;
	(void)snprintf(text, sizeof text, "%.0f in this cgroup", kills);
	head_fact(flow, "OOM kills", NAN, PAPER_BAD, text);
}

/* "mem 3/1, ": some and full, in percent. */
static size_t head_pressure_of(
	const struct node *pressure, const char *what, const char *called, char *out, size_t room)
{
	char some[32], full[32];
	(void)snprintf(some, sizeof some, "%s_some", what);
	(void)snprintf(full, sizeof full, "%s_full", what);
	double a = top_number(pressure, some), b = top_number(pressure, full);
	if (isnan(a))
		return 0;
	int n = isnan(b) ? snprintf(out, room, "%s %.0f, ", called, a)
			 : snprintf(out, room, "%s %.0f/%.0f, ", called, a, b);
	return UTIL_MIN((size_t)n, room - 1);
}

static void head_pressure(struct head_flow *flow)
{
	char text[HEAD_TEXT];
	size_t n = 0;
	const struct node *pressure =
		document_get(document_get(flow->view->now, "machine"), "pressure");
	text[0] = 0;
	n += head_pressure_of(pressure, "cpu", "cpu", text + n, sizeof text - n);
	n += head_pressure_of(pressure, "memory", "mem", text + n, sizeof text - n);
	n += head_pressure_of(pressure, "io", "io", text + n, sizeof text - n);
	if (n < 2)
		return;
	(void)snprintf(text + n - 2, sizeof text - n + 2, " %%");
	head_fact(flow, "pressure", NAN, PAPER_PLAIN, text);
}

static void head_gpus(struct head_flow *flow)
{
	const struct node *gpus = document_get(flow->view->now, "gpus");
	for (size_t i = 0; i < document_count(gpus); i++) {
		char label[24], bytes[48], busy[24], text[HEAD_TEXT];
		const struct node *gpu = document_at(gpus, i, NULL);
		double used = top_number(gpu, "used"), total = top_number(gpu, "total");
		(void)snprintf(
			label, sizeof label, "GPU %.0f", document_number(gpu, "device", (double)i));
		(void)top_percent(top_number(gpu, "busy"), busy, sizeof busy);
		(void)snprintf(text, sizeof text, "%s%s%s",
			top_bytes_of(used, total, bytes, sizeof bytes), *busy ? " " : "", busy);
		head_fact(flow, label, top_share(used, total), head_attr(top_share(used, total)),
			text);
	}
}

/* A line of its own: it does not fit beside another fact. */
static void head_remote(const struct top_view *view, struct paper *paper)
{
	char requests[24], bytes[24], retries[24], text[TOP_SENTENCE];
	const struct node *remote = document_get(view->now, "remote");
	const char *waiting = document_text(remote, "waiting", "");
	if (!remote)
		return;
	(void)snprintf(text, sizeof text,
		"%s requests/s, %s/s, %.0f connections, first byte p99 %s, %s tried again",
		top_count(top_rate(view, "remote", "requests"), requests, sizeof requests),
		top_bytes(top_rate(view, "remote", "bytes"), bytes, sizeof bytes),
		document_number(remote, "connections", 0),
		table_seconds(document_number(remote, "first_byte_p99_s", 0)).text,
		top_count(top_number(remote, "retries"), retries, sizeof retries));
	top_line(paper, "remote", *waiting ? PAPER_WARN : PAPER_PLAIN, text);
}

void top_facts(const struct top_view *view, struct paper *paper)
{
	struct head_flow flow = {
		.view = view, .paper = paper, .abreast = UTIL_MAX(paper->width / HEAD_FACT, 1)};
	head_evidences(&flow);
	head_cpu(&flow);
	head_memory(&flow);
	head_storage(&flow, document_get(top_worst(view->now), "bottleneck"));
	head_cache(&flow);
	head_cgroup(&flow);
	head_gpus(&flow);
	head_pressure(&flow);
	head_stage_facts(&flow);
	head_remote(view, paper);
}
