/* ring_dump: a flight recorder's file as JSON lines, one an entry, for tests. What is not known is
 * null. `ring_dump FILE`; 1 with a sentence where it is none. */
#include "base/util.h"
#include "proto/jsontext.h"
#include "record/record_json.h"
#include "record/ring.h"

#include <stdio.h>

static const char *const dump_kinds[RECORD_KINDS] = {[RECORD_START] = "start",
	[RECORD_ATTACH] = "attach",
	[RECORD_LEAVE] = "leave",
	[RECORD_EXIT] = "exit",
	[RECORD_END] = "end",
	[RECORD_NOTE] = "note",
	[RECORD_DAEMON] = "daemon",
	[RECORD_TRAINER] = "trainer",
	[RECORD_MACHINE] = "machine",
	[RECORD_GPU] = "gpu"};

static void dump_memory(struct jsontext *json, const struct record_memory *memory)
{
	record_json_known(json, "resident", memory->resident);
	record_json_known(json, "anonymous", memory->anonymous);
	record_json_known(json, "shared", memory->shared);
	record_json_known(json, "swapped", memory->swapped);
	record_json_known(json, "peak", memory->peak);
}

static void dump_start(struct jsontext *json, const struct record_start *start)
{
	jsontext_i64(json, "pid", start->pid);
	jsontext_u64(json, "threads", start->threads);
	jsontext_u64(json, "cpus", start->cpus);
	jsontext_u64(json, "start_ticks", start->start_ticks);
	jsontext_u64(json, "budget", start->budget);
	record_json_known(json, "memory_total", start->memory_total);
	jsontext_string(json, "boot_id", start->boot_id);
	jsontext_string(json, "version", start->version);
	jsontext_string(json, "kernel", start->kernel);
	jsontext_string(json, "socket", start->socket);
	jsontext_string(json, "config", start->config);
	jsontext_string(json, "host", start->host);
	jsontext_i64(json, "parent", start->parent);
	jsontext_string(json, "parent_command", start->parent_command);
	record_json_cgroup(json, &start->cgroup);
}

static void dump_attach(struct jsontext *json, const struct record_attach *attach)
{
	jsontext_u64(json, "trainer", attach->trainer);
	jsontext_i64(json, "pid", attach->pid);
	jsontext_i64(json, "parent", attach->parent);
	jsontext_u64(json, "start_ticks", attach->start_ticks);
	jsontext_string(json, "stream", attach->stream);
	jsontext_string(json, "source", attach->source);
	jsontext_string(json, "group", attach->group);
	jsontext_u64(json, "batch_size", attach->batch_size);
	jsontext_u64(json, "rank", attach->rank);
	jsontext_u64(json, "world_size", attach->world_size);
	jsontext_string(json, "command", attach->command);
	jsontext_string(json, "parent_command", attach->parent_command);
	jsontext_i64(json, "deadline_s", attach->deadline_s);
	record_json_known(json, "cpu_limit_s", attach->cpu_limit_s);
	record_json_cgroup(json, &attach->cgroup);
}

static void dump_leave(struct jsontext *json, const struct record_leave *leave)
{
	static const char *const names[] = {
		"", "closed", "hung up", "process ended", "expelled", "drained"};
	jsontext_u64(json, "trainer", leave->trainer);
	jsontext_string(json, "how", names[leave->how % UTIL_COUNT(names)]);
	jsontext_u64(json, "held", leave->held);
	jsontext_u64(json, "epoch", leave->epoch);
	jsontext_u64(json, "batch", leave->batch);
	jsontext_u64(json, "given", leave->given);
	jsontext_string(json, "text", leave->text);
}

static void dump_exit(struct jsontext *json, const struct record_exit *e)
{
	jsontext_u64(json, "trainer", e->trainer);
	jsontext_i64(json, "pid", e->pid);
	jsontext_bool(json, "known", e->known != 0);
	jsontext_i64(json, "status", e->status);
	jsontext_u64(json, "oom_kills", e->oom_kills);
	record_json_known(json, "lived_s", e->lived_s);
	record_json_known(json, "cpu_s", e->cpu_s);
	dump_memory(json, &e->memory);
	record_json_cgroup(json, &e->cgroup);
}

static void dump_daemon(struct jsontext *json, const struct record_daemon *daemon)
{
	dump_memory(json, &daemon->memory);
	jsontext_u64(json, "reserved", daemon->reserved);
	jsontext_u64(json, "budget", daemon->budget);
	jsontext_u64(json, "images", daemon->images);
	jsontext_u64(json, "batches", daemon->batches);
	jsontext_u64(json, "read_bytes", daemon->read_bytes);
	jsontext_u64(json, "trainers", daemon->trainers);
	jsontext_u64(json, "streams", daemon->streams);
	jsontext_number(json, "images_per_s", (double)daemon->images_per_s, 1);
	jsontext_number(json, "trainer_wait", (double)daemon->trainer_wait, 3);
	jsontext_number(json, "slots_full", (double)daemon->slots_full, 3);
	jsontext_number(json, "workers_idle", (double)daemon->workers_idle, 3);
	jsontext_string(json, "verdict", daemon->verdict);
}

static void dump_trainer(struct jsontext *json, const struct record_trainer *trainer)
{
	jsontext_u64(json, "trainer", trainer->trainer);
	jsontext_i64(json, "pid", trainer->pid);
	jsontext_u64(json, "held", trainer->held);
	jsontext_u64(json, "slots", trainer->slots);
	jsontext_u64(json, "epoch", trainer->epoch);
	jsontext_u64(json, "batch", trainer->batch);
	jsontext_u64(json, "given", trainer->given);
	jsontext_number(json, "waits", (double)trainer->waits, 3);
	jsontext_number(json, "cpu", (double)trainer->cpu, 3);
	dump_memory(json, &trainer->memory);
	record_json_known(json, "gpu_bytes", trainer->gpu_bytes);
}

static void dump_machine(struct jsontext *json, const struct record_machine *machine)
{
	record_json_known(json, "available", machine->available);
	record_json_known(json, "total", machine->total);
	record_json_known(json, "swap_free", machine->swap_free);
	record_json_known(json, "oom_kills", machine->oom_kills);
	record_json_known(json, "disk_free", machine->disk_free);
	record_json_cgroup(json, &machine->cgroup);
	jsontext_number(json, "cpu_some", (double)machine->pressure.cpu_some, 2);
	jsontext_number(json, "memory_some", (double)machine->pressure.memory_some, 2);
	jsontext_number(json, "memory_full", (double)machine->pressure.memory_full, 2);
	jsontext_number(json, "io_some", (double)machine->pressure.io_some, 2);
	jsontext_number(json, "io_full", (double)machine->pressure.io_full, 2);
}

static void dump_gpu(struct jsontext *json, const struct record_gpu *gpu)
{
	jsontext_u64(json, "device", gpu->device);
	jsontext_string(json, "name", gpu->name);
	record_json_known(json, "used", gpu->used);
	record_json_known(json, "total", gpu->total);
	jsontext_number(json, "busy", (double)gpu->busy, 2);
}

static void dump_body(struct jsontext *json, const struct record *record)
{
	switch ((enum record_kind)record->kind) {
	case RECORD_START:
		dump_start(json, &record->body.start);
		break;
	case RECORD_ATTACH:
		dump_attach(json, &record->body.attach);
		break;
	case RECORD_LEAVE:
		dump_leave(json, &record->body.leave);
		break;
	case RECORD_EXIT:
		dump_exit(json, &record->body.exit);
		break;
	case RECORD_END:
	case RECORD_NOTE:
		jsontext_string(json, "text", record->body.note.text);
		break;
	case RECORD_DAEMON:
		dump_daemon(json, &record->body.daemon);
		break;
	case RECORD_TRAINER:
		dump_trainer(json, &record->body.trainer);
		break;
	case RECORD_MACHINE:
		dump_machine(json, &record->body.machine);
		break;
	case RECORD_GPU:
		dump_gpu(json, &record->body.gpu);
		break;
	case RECORD_KINDS:
		break;
	}
}

static int dump_record(const struct record *record)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	jsontext_string(&json, "kind", dump_kinds[record->kind]);
	jsontext_number(&json, "time_s", (double)record->time_ns * 1e-9, 3);
	dump_body(&json, record);
	jsontext_end(&json);
	int result = json.text.bytes && puts(json.text.bytes) >= 0 ? 0 : 1;
	jsontext_free(&json);
	return result;
}

int main(int argc, char **argv)
{
	struct record *records;
	struct fault fault;
	size_t count;
	if (argc != 2 || ring_read(argv[1], &records, &count, &fault)) {
		(void)fprintf(stderr, "%s\n", argc == 2 ? fault.text : "usage: ring_dump FILE");
		return 1;
	}
	int result = 0;
	for (size_t i = 0; i < count && !result; i++)
		result = dump_record(&records[i]);
	free(records);
	return result;
}
