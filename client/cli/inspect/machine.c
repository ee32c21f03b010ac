/* machine: see machine.h. */
#include "client/cli/inspect/machine.h"

#include "base/host/cpu.h"
#include "base/permit.h"
#include "base/util.h"
#include "client/cli/table.h"
#include "decode/decode.h"
#include "fetch/fetch.h"
#include "proto/jsontext.h"
#include "serve/budget.h"
#include "unpack/unpack.h"

#include <png.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <jpeglib.h>

#define MACHINE_STRING(x) #x
#define MACHINE_TEXT(x) MACHINE_STRING(x)

/* Finds out whether io_uring works by using it: makes the smallest reader. */
static void machine_read_uring(struct machine *machine)
{
	struct permit large;
	permit_init(&large, 1 << 20);
	struct fetch_options options = {.engine = FETCH_URING,
		.io = FETCH_IO_BUFFERED,
		.arena_bytes = 1 << 20,
		.index_bytes = 64 * 4096,
		.large = &large};
	struct fetch *fetch = NULL;
	struct fault fault = {{0}};
	machine->io_uring = fetch_new(&options, &fetch, &fault) == 0;
	(void)snprintf(machine->io_uring_text, sizeof machine->io_uring_text, "%s",
		machine->io_uring ? fetch_describe(fetch) : fault.text);
	if (machine->io_uring)
		fetch_free(fetch);
	permit_deinit(&large);
}

static void machine_read_model(struct machine *machine)
{
	char line[256];
	cleanup(close_file) FILE *file = fopen("/proc/cpuinfo", "re");
	(void)snprintf(machine->model, sizeof machine->model, "not known");
	while (file && fgets(line, sizeof line, file)) {
		const char *value = strchr(line, ':');
		if (!value || strncmp(line, "model name", 10) != 0)
			continue;
		value += 1 + strspn(value + 1, " ");
		(void)snprintf(machine->model, sizeof machine->model, "%.*s",
			(int)strcspn(value, "\n"), value);
		return;
	}
}

void machine_read(struct machine *ret)
{
	*ret = (struct machine){.cpus = cpu_available(), .page_bytes = sysconf(_SC_PAGESIZE)};
	ret->cpus_online = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	cgroup_memory_read(&ret->memory);
	struct rlimit limit = {0};
	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	ret->memlock_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	struct utsname name;
	if (uname(&name) == 0)
		(void)snprintf(ret->kernel, sizeof ret->kernel, "%.40s, %.30s", name.release,
			name.machine);
#ifdef LIBJPEG_TURBO_VERSION
	(void)snprintf(ret->jpeg, sizeof ret->jpeg, "libjpeg-turbo %s",
		MACHINE_TEXT(LIBJPEG_TURBO_VERSION));
#else
	(void)snprintf(ret->jpeg, sizeof ret->jpeg, "libjpeg, API %d", JPEG_LIB_VERSION);
#endif
	(void)snprintf(ret->png, sizeof ret->png, "libpng %.12s", png_get_libpng_ver(NULL));
	machine_read_model(ret);
	machine_read_uring(ret);
}

void machine_print(const struct machine *machine)
{
	char unpacks[UNPACK_TEXT];
	(void)printf("\nthis machine\n");
	(void)printf("  %-12s %u of %u may be used\n", "CPUs", machine->cpus, machine->cpus_online);
	(void)printf("  %-12s %s available; the limit is %s (%.40s)\n", "memory",
		table_bytes(machine->memory.available).text,
		table_bytes(machine->memory.limit).text, machine->memory.source);
	(void)printf("  %-12s %s\n", "memlock",
		machine->memlock_bytes == UINT64_MAX ? "unlimited"
						     : table_bytes(machine->memlock_bytes).text);
	(void)printf("  %-12s %s, pages of %s\n", "kernel", machine->kernel,
		table_bytes((uint64_t)machine->page_bytes).text);
	table_sentence(2, 12, "io_uring", machine->io_uring ? "yes" : machine->io_uring_text, 80);
	(void)printf("  %-12s %s, %s\n", "libraries", machine->jpeg, machine->png);
	(void)printf("  %-12s %s\n", "image types", decode_formats());
	(void)printf("  %-12s %s\n", "unpacks", unpack_describe(unpacks));
}

void machine_json(const struct machine *machine, struct jsontext *json)
{
	char unpacks[UNPACK_TEXT];
	jsontext_object(json, "machine");
	jsontext_u64(json, "cpus", machine->cpus);
	jsontext_u64(json, "cpus_online", machine->cpus_online);
	jsontext_u64(json, "memory_available", machine->memory.available);
	jsontext_u64(json, "memory_limit", machine->memory.limit);
	jsontext_string(json, "memory_limit_from", machine->memory.source);
	if (machine->memlock_bytes == UINT64_MAX)
		jsontext_raw(json, "memlock", "null");
	else
		jsontext_u64(json, "memlock", machine->memlock_bytes);
	jsontext_string(json, "kernel", machine->kernel);
	jsontext_u64(json, "page_bytes", (uint64_t)machine->page_bytes);
	jsontext_bool(json, "io_uring", machine->io_uring);
	jsontext_string(json, "io_uring_reason", machine->io_uring ? "" : machine->io_uring_text);
	jsontext_string(json, "libjpeg", machine->jpeg);
	jsontext_string(json, "libpng", machine->png);
	jsontext_string(json, "image_types", decode_formats());
	jsontext_string(json, "unpacks", unpack_describe(unpacks));
	jsontext_end(json);
}

unsigned machine_threads(void)
{
	return cpu_threads();
}

uint64_t machine_budget_for(uint64_t bytes, unsigned *ret_threads)
{
	const struct budget_worker worker = budget_worker_needs();
	*ret_threads = cpu_threads();
	return budget_for(bytes, *ret_threads, &worker);
}
