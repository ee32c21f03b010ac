/* recorder: see recorder.h. */
#define LOG_TOPIC LOG_RECORDER
#include "serve/observe/recorder.h"

#include "base/host/cpu.h"
#include "base/host/procfile.h"
#include "base/log.h"
#include "base/size.h"
#include "base/util.h"
#include "record/record_json.h"
#include "record/witness.h"
#include "serve/observe/observe.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
	RECORDER_KEEP = 8, /* files in the folder */
	RECORDER_TURN = 64, /* records heard in one turn of the loop */
};

/* ---- start and end ---- */

void recorder_start(struct server *server, void (*confine)(void *server))
{
	const struct config *config = server->config;
	const struct witness_options options = {
		.folder = config->recorder[0] == '/' ? config->recorder : NULL,
		.bytes = config->recorder_size,
		.keep = RECORDER_KEEP,
		.confine = confine,
		.confine_context = server,
	};
	struct fault fault;
	memset(&server->recorder.resident_bytes, 0xff, sizeof server->recorder.resident_bytes);
	if (strcmp(config->recorder, "off") == 0)
		return;
	if (witness_start(&options, &server->recorder.witness, &fault))
		recorder_notice(server, fault.text);
}

void recorder_watch(struct server *server)
{
	struct recorder *r = &server->recorder;
	const struct config *config = server->config;
	struct record record = {.kind = RECORD_START, .bytes = sizeof record.body.start};
	struct record_start *start = &record.body.start;
	if (!r->witness)
		return;
	r->watch.kind = WATCH_WITNESS;
	if (loop_watch(&server->loop, witness_fd(r->witness), EPOLLIN, &r->watch))
		notices_add(&server->notices,
			"the flight recorder's answers cannot be watched: its "
			"figures are missing; raise fs.epoll.max_user_watches");
	start->pid = getpid();
	start->threads = workers_threads(server->workers);
	start->cpus = cpu_available();
	start->budget = server->memory.budget;
	(void)snprintf(start->version, sizeof start->version, "%s", PENSTOCK_VERSION);
	(void)snprintf(start->socket, sizeof start->socket, "%s", server->socket);
	(void)snprintf(start->config, sizeof start->config, "%s", config->file);
	witness_tell(r->witness, &record, -1);
}

static void recorder_say(struct server *server, enum record_kind kind, const char *text)
{
	struct record record = {.kind = kind, .bytes = sizeof record.body.note};
	(void)snprintf(record.body.note.text, sizeof record.body.note.text, "%s", text);
	witness_tell(server->recorder.witness, &record, -1);
}

void recorder_notice(struct server *server, const char *text)
{
	recorder_say(server, RECORD_NOTE, text);
	notices_add(&server->notices, text);
}

void recorder_ending(struct server *server, const char *kind, const char *why)
{
	char text[RECORD_TEXT];
	(void)snprintf(text, sizeof text, "%s: %s", kind, why);
	if (!server->recorder.ending)
		recorder_say(server, RECORD_END, text);
	server->recorder.ending = true;
}

void recorder_signalled(struct server *server, uint32_t number, uint32_t pid)
{
	char path[64], name[64], text[RECORD_TEXT];
	(void)snprintf(path, sizeof path, "/proc/%u/comm", pid);
	(void)procfile_read("", path, name, sizeof name);
	name[strcspn(name, "\n")] = 0;
	if (!pid) /* the kernel, or a process of another namespace */
		(void)snprintf(text, sizeof text, "by signal %u", number);
	else if (name[0])
		(void)snprintf(
			text, sizeof text, "by signal %u from pid %u (%s)", number, pid, name);
	else
		(void)snprintf(text, sizeof text, "by signal %u from pid %u", number, pid);
	recorder_ending(server, "asked", text);
}

void recorder_end(struct server *server)
{
	struct witness *witness = server->recorder.witness;
	server->recorder.witness = NULL;
	witness_end(witness, server->recorder.ending ? NULL : "asked: it was told to");
}

/* ---- trainers ---- */

void recorder_attach(const struct member *m)
{
	struct client *client = m->client;
	struct server *server = client->server;
	const struct stream_spec *spec = &m->group->spec;
	struct record record = {.kind = RECORD_ATTACH, .bytes = sizeof record.body.attach};
	struct record_attach *attach = &record.body.attach;
	if (!client->record.number)
		client->record.number = ++server->recorder.trainers;
	attach->trainer = client->record.number;
	attach->pid = client->pid;
	attach->batch_size = spec->batch_size;
	attach->rank = spec->rank;
	attach->world_size = spec->world_size;
	(void)snprintf(attach->stream, sizeof attach->stream, "%s", spec->name);
	(void)snprintf(attach->source, sizeof attach->source, "%s", spec->source);
	if (m->group->name[0] != '\n')
		(void)snprintf(attach->group, sizeof attach->group, "%s", m->group->name);
	witness_tell(server->recorder.witness, &record, client->pidfd);
}

void recorder_announced(struct member *m)
{
	struct client_record *record = &m->client->record;
	record->given++;
	record->epoch = m->epoch;
	record->batch = m->batch;
	record->group = m->group->extent_number;
}

static uint32_t recorder_held(const struct client *client)
{
	uint32_t held = 0;
	list_each (m, &client->members, struct member, of_client)
		held += session_held(m);
	return held;
}

/* Whether the client's last messages close everything that it has open. Its end may be seen by its
 * pidfd, or by a message that cannot be sent, while they are unread. The connection is given up, so
 * the messages may be consumed here. */
static bool recorder_closes(const struct client *client)
{
	size_t open = 0;
	struct wire_head head;
	list_each (m, &client->members, struct member, of_client)
		open++;
	/* A client that lives may go on writing: so not without end. */
	for (unsigned resets = 0, most = 4096; open && most; most--) {
		ssize_t n = recv(client->fd, &head, sizeof head, MSG_DONTWAIT);
		if (n < 0 && errno == ECONNRESET && !resets++)
			continue; /* reported once, before the messages that are left */
		if (n < (ssize_t)sizeof head)
			return false;
		open -= head.type == WIRE_CLOSE;
	}
	return !open;
}

/* By the reason that client_close was given. */
static enum record_leaving recorder_how(const struct client *client, const char *why)
{
	bool ended = strcmp(why, client_process_ended) == 0;
	if (strcmp(why, client_daemon_ends) == 0)
		return recorder_closes(client) ? RECORD_CLOSED : RECORD_DRAINED;
	if (!ended && strcmp(why, client_hung_up) != 0)
		return RECORD_EXPELLED;
	if (recorder_closes(client))
		return RECORD_CLOSED;
	return ended ? RECORD_PROCESS_ENDED : RECORD_HUNG_UP;
}

void recorder_leave(const struct client *client, const char *why)
{
	struct record record = {.kind = RECORD_LEAVE, .bytes = sizeof record.body.leave};
	struct record_leave *leave = &record.body.leave;
	if (!client->record.number)
		return;
	*leave = (struct record_leave){.trainer = client->record.number,
		.how = recorder_how(client, why),
		.held = recorder_held(client),
		.epoch = client->record.epoch,
		.batch = client->record.batch,
		.given = client->record.given};
	(void)snprintf(leave->text, sizeof leave->text, "%s", why);
	witness_tell(client->server->recorder.witness, &record, -1);
}

/* ---- once a second ---- */

/* Of the stream from which it was given its last batch. */
static uint32_t recorder_slots(const struct client *client)
{
	list_each (m, &client->members, struct member, of_client)
		if (m->group->stream &&
			(m->group->extent_number == client->record.group || !m->of_client.next))
			return stream_extent(m->group->stream)->slots;
	return 0;
}

/* Of the stream for which it waited most. */
static double recorder_waits(const struct client *client)
{
	double waits = 0;
	list_each (m, &client->members, struct member, of_client)
		waits = UTIL_MAX(waits, account_member_waited(m));
	return UTIL_MIN(waits, 1.0);
}

static void recorder_tick_client(const struct client *client)
{
	const struct client_record *c = &client->record;
	struct record record = {.kind = RECORD_TRAINER, .bytes = sizeof record.body.trainer};
	struct record_trainer *trainer = &record.body.trainer;
	*trainer = (struct record_trainer){.trainer = c->number,
		.pid = client->pid,
		.held = recorder_held(client),
		.slots = recorder_slots(client),
		.epoch = c->epoch,
		.batch = c->batch,
		.given = c->given,
		.waits = (float)recorder_waits(client),
		.cpu = -1,
		.gpu_bytes = UINT64_MAX};
	memset(&trainer->memory, 0xff, sizeof trainer->memory);
	witness_tell(client->server->recorder.witness, &record, -1);
}

static float recorder_share_of(double part, double whole)
{
	return whole > 0 ? (float)UTIL_MIN(part / whole, 1.0) : 0;
}

/* The second that account_tick has just ended. */
static void recorder_add_group(const struct group *group, struct record_daemon *daemon)
{
	const struct account_group *account = &group->account;
	const struct account_group_second *s =
		&account->window[(account->ticks - 1) % ACCOUNT_WINDOW];
	double seconds = s->daemon.seconds;
	float waits = recorder_share_of(s->trainer_wait_s, seconds);
	float full = recorder_share_of(s->slots_full_s, seconds);
	daemon->trainer_wait = UTIL_MAX(daemon->trainer_wait, waits);
	daemon->slots_full = UTIL_MAX(daemon->slots_full, full);
	daemon->images_per_s += seconds > 0 ? (float)((double)s->images / seconds) : 0;
	daemon->streams++;
}

static void recorder_tick_daemon(struct server *server)
{
	const struct account_second *second = &server->account.second;
	struct record record = {.kind = RECORD_DAEMON, .bytes = sizeof record.body.daemon};
	struct record_daemon *daemon = &record.body.daemon;
	struct totals totals;
	struct fetch_stats fetch;
	char remedy[VERDICT_TEXT];
	totals_read(server, &totals);
	fetch_stats_read(server->fetch, &fetch);
	memset(&daemon->memory, 0xff, sizeof daemon->memory);
	daemon->budget = server->ledger.budget;
	daemon->reserved = server->ledger.budget - ledger_free(&server->ledger);
	daemon->images = totals.streams.images;
	daemon->batches = totals.streams.batches;
	daemon->read_bytes = fetch.bytes;
	list_each (c, &server->clients, struct client, node)
		daemon->trainers += c->record.number && !c->dead;
	list_each (g, &server->groups, struct group, node)
		if (g->stream && !g->closing && g->account.ticks)
			recorder_add_group(g, daemon);
	daemon->workers_idle = recorder_share_of(
		second->workers_idle_s, second->seconds * workers_threads(server->workers));
	bottleneck_server(server, daemon->verdict, sizeof daemon->verdict, remedy);
	witness_tell(server->recorder.witness, &record, -1);
}

void recorder_tick(struct server *server)
{
	if (!server->recorder.witness)
		return;
	recorder_tick_daemon(server);
	list_each (c, &server->clients, struct client, node)
		if (c->record.number && !c->dead)
			recorder_tick_client(c);
}

/* ---- what the witness sends ---- */

static struct client *recorder_find(struct server *server, uint64_t number)
{
	list_each (c, &server->clients, struct client, node)
		if (c->record.number == number && !c->dead)
			return c;
	return NULL;
}

static void recorder_take_trainer(struct server *server, const struct record_trainer *trainer)
{
	struct client *client = recorder_find(server, trainer->trainer);
	if (!client)
		return;
	client->record.measured = true;
	client->record.resident_bytes = trainer->memory.resident;
	client->record.gpu_bytes = trainer->gpu_bytes;
	client->record.cpu = trainer->cpu;
}

/* All devices of a second come one after another, the lowest first. */
static void recorder_take_gpu(struct recorder *r, const struct record_gpu *gpu)
{
	unsigned i = 0;
	while (i < r->gpus && r->gpu[i].device != gpu->device)
		i++;
	if (i == RECORD_GPUS)
		return;
	r->gpu[i] = *gpu;
	r->gpus = UTIL_MAX(r->gpus, i + 1);
}

static void recorder_take_exit(const struct record_exit *e)
{
	char memory[32] = "unknown", kills[64] = "";
	if (e->memory.resident != UINT64_MAX)
		(void)size_format(e->memory.resident, memory, sizeof memory);
	if (e->oom_kills)
		(void)snprintf(kills, sizeof kills, "; the OOM killer ended %u there meanwhile",
			e->oom_kills);
	if (!e->known)
		log_info("trainer %d ended, it is not known how; last resident memory: %s%s",
			e->pid, memory, kills);
	else if (WIFSIGNALED(e->status))
		log_warning("trainer %d was ended by signal %d (%s); last resident memory: %s%s; "
			    "`penstock why %d` says more",
			e->pid, WTERMSIG(e->status), strsignal(WTERMSIG(e->status)), memory, kills,
			e->pid);
	else
		log_info("trainer %d ended with status %d; last resident memory: %s", e->pid,
			WEXITSTATUS(e->status), memory);
}

static void recorder_take_attach(struct server *server, const struct record_attach *attach)
{
	struct client *client = recorder_find(server, attach->trainer);
	if (client)
		(void)snprintf(client->record.command, sizeof client->record.command, "%.*s",
			RECORD_TEXT - 1, attach->command);
}

static void recorder_take(struct server *server, const struct record *record)
{
	struct recorder *r = &server->recorder;
	switch (record->kind) {
	case RECORD_START:
		r->writes = true;
		log_info("flight recorder: %s (pid %d)", witness_path(r->witness),
			witness_pid(r->witness));
		break;
	case RECORD_ATTACH:
		recorder_take_attach(server, &record->body.attach);
		break;
	case RECORD_TRAINER:
		recorder_take_trainer(server, &record->body.trainer);
		break;
	case RECORD_DAEMON:
		r->resident_bytes = record->body.daemon.memory.resident;
		break;
	case RECORD_MACHINE:
		r->has_machine = true;
		r->machine = record->body.machine;
		break;
	case RECORD_GPU:
		recorder_take_gpu(r, &record->body.gpu);
		break;
	case RECORD_EXIT:
		if (record->body.exit.trainer)
			recorder_take_exit(&record->body.exit);
		break;
	case RECORD_NOTE:
		/* The witness has recorded it itself. */
		notices_add(&server->notices, record->body.note.text);
		break;
	default:
		break;
	}
}

uint64_t recorder_dropped(const struct recorder *recorder)
{
	return recorder->dropped + (recorder->witness ? witness_dropped(recorder->witness) : 0);
}

static void recorder_gone(struct server *server)
{
	struct recorder *r = &server->recorder;
	char how[64], text[RECORD_TEXT];
	if (!witness_gone(r->witness, how, sizeof how))
		return;
	(void)snprintf(text, sizeof text,
		"the flight recorder (pid %d) %s: nothing is recorded any more until the daemon is "
		"restarted",
		witness_pid(r->witness), how);
	uint64_t dropped = recorder_dropped(r);
	witness_end(r->witness, NULL);
	*r = (struct recorder){
		.resident_bytes = UINT64_MAX, .trainers = r->trainers, .dropped = dropped};
	list_each (c, &server->clients, struct client, node)
		c->record.measured = false;
	notices_add(&server->notices, text);
}

void recorder_hear(struct server *server)
{
	struct record record;
	for (int i = 0; i < RECORDER_TURN && witness_hear(server->recorder.witness, &record); i++)
		recorder_take(server, &record);
	recorder_gone(server);
}

/* ---- status ---- */

static void recorder_status_machine(struct jsontext *json, const struct record_machine *machine)
{
	jsontext_object(json, "machine");
	record_json_known(json, "available", machine->available);
	record_json_known(json, "total", machine->total);
	record_json_known(json, "swap_free", machine->swap_free);
	record_json_known(json, "oom_kills", machine->oom_kills);
	record_json_known(json, "disk_free", machine->disk_free);
	record_json_cgroup(json, &machine->cgroup);
	record_json_pressure(json, &machine->pressure, 2);
	jsontext_end(json);
}

void recorder_status(struct jsontext *json, const struct server *server)
{
	const struct recorder *r = &server->recorder;
	if (r->witness) {
		jsontext_object(json, "recorder");
		jsontext_string(json, "path", witness_path(r->witness));
		jsontext_bool(json, "writes", r->writes);
		jsontext_i64(json, "pid", witness_pid(r->witness));
		jsontext_u64(json, "dropped", witness_dropped(r->witness));
		jsontext_end(json);
	} else {
		jsontext_raw(json, "recorder", "null");
	}
	record_json_known(json, "resident_bytes", r->resident_bytes);
	if (r->has_machine)
		recorder_status_machine(json, &r->machine);
	else
		jsontext_raw(json, "machine", "null");
	jsontext_array(json, "gpus");
	for (unsigned i = 0; i < r->gpus; i++)
		record_json_gpu(json, &r->gpu[i], 2);
	jsontext_end(json);
}

void recorder_status_trainer(struct jsontext *json, const struct client *client)
{
	const struct client_record *c = &client->record;
	record_json_known(json, "resident_bytes", c->measured ? c->resident_bytes : UINT64_MAX);
	record_json_known(json, "gpu_bytes", c->measured ? c->gpu_bytes : UINT64_MAX);
	record_json_share(json, "cpu", c->measured ? (double)c->cpu : -1, 2);
	if (c->command[0])
		jsontext_string(json, "command", c->command);
	else
		jsontext_raw(json, "command", "null");
}
