/* cgroup: see cgroup.h.
 *
 * A controller is in one hierarchy only, v1 or v2, but in which one differs from machine to
 * machine, and hybrid setups mount both. So both are walked, and a missing file counts as no limit:
 * an empty v2 hierarchy beside a v1 memory controller needs no special case. File formats: the
 * kernel's Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst, and proc(5) for mountinfo. */
#include "base/host/cgroup.h"

#include "base/host/procfile.h"
#include "base/util.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A mountinfo line, unescaped: which part of which hierarchy is mounted where. */
struct cgroup_mount {
	char root[PATH_MAX], point[PATH_MAX];
	char type[16];
	char options[512];
};

/* The result of the levels seen so far. */
struct cgroup_tally {
	struct cgroup_memory *memory;
	uint64_t seen_used, seen_reclaimable; /* of the level that was read last */
};

static FILE *cgroup_open(const char *root, const char *path)
{
	char full[PATH_MAX];
	int n = snprintf(full, sizeof full, "%s%s", root, path);
	return n > 0 && (size_t)n < sizeof full ? fopen(full, "re") : NULL;
}

/* Reads a file that holds one number. False for "max" and "-1", which mean no limit. */
static bool cgroup_number(const char *dir, const char *name, uint64_t *ret)
{
	char path[64], text[64];
	(void)snprintf(path, sizeof path, "/%s", name);
	if (procfile_read(dir, path, text, sizeof text) <= 0)
		return false;
	const char *value = text + strspn(text, " ");
	bool number = isdigit((unsigned char)value[0]) || (value[0] == '-' && value[1]);
	if (number)
		*ret = strtoull(value, NULL, 10);
	return number;
}

/* Adds up the values of some keys in a file of "key value" lines; false where it has none of
 * them. */
static bool cgroup_sum(
	const char *root, const char *path, const char *const keys[], size_t count, uint64_t *ret)
{
	char text[PROCFILE_ROOM];
	uint64_t value, sum = 0;
	bool found = false;
	if (procfile_read(root, path, text, sizeof text) < 0)
		return false;
	for (size_t i = 0; i < count; i++)
		if (procfile_value(text, keys[i], &value)) {
			sum += value;
			found = true;
		}
	*ret = sum;
	return found;
}

static bool cgroup_stat(const char *dir, const char *const keys[], size_t count, uint64_t *ret)
{
	return cgroup_sum(dir, "/memory.stat", keys, count, ret);
}

/* Whether `list` ("cpu,cpuacct") has `name`. */
static bool cgroup_listed(const char *list, const char *name)
{
	size_t size = strlen(name);
	while (*list) {
		size_t n = strcspn(list, ",");
		if (n == size && memcmp(list, name, n) == 0)
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

/* Finds a process's path in the hierarchy of `controller` (NULL: the v2 one). */
static bool cgroup_path_of(
	const char *root, const char *process, const char *controller, char ret[PATH_MAX])
{
	char name[64];
	(void)snprintf(name, sizeof name, "/proc/%s/cgroup", process);
	cleanup(close_file) FILE *file = cgroup_open(root, name);
	cleanup(free_ptr) char *line = NULL;
	size_t room = 0;
	while (file && getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;
		if (!path || strlen(path) >= PATH_MAX)
			continue;
		*list++ = 0;
		*path++ = 0;
		if (controller ? cgroup_listed(list, controller)
			       : strcmp(line, "0") == 0 && !*list) {
			memcpy(ret, path, strlen(path) + 1);
			return true;
		}
	}
	return false;
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static void cgroup_unescape(char *text)
{
	char *out = text;
	for (const char *in = text; *in; in++) {
		bool octal = in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' &&
			     in[2] <= '7' && in[3] >= '0' && in[3] <= '7';
		*out++ = octal ? (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'))
			       : *in;
		in += octal ? 3 : 0;
	}
	*out = 0;
}

static bool cgroup_mount_parse(const char *line, struct cgroup_mount *ret)
{
	_Static_assert(PATH_MAX == 4096, "the widths below");
	const char *rest = strstr(line, " - ");
	if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", ret->root, ret->point) != 2)
		return false;
	ret->options[0] = 0;
	if (sscanf(rest + 3, "%15s %*s %511s", ret->type, ret->options) < 1)
		return false;
	cgroup_unescape(ret->root);
	cgroup_unescape(ret->point);
	return true;
}

static bool cgroup_is_folder(const char *path)
{
	struct stat s;
	return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The part of `path` below the mount's root; NULL where it is elsewhere. A path with ".." is
 * outside this cgroup namespace. */
static const char *cgroup_below(const char *mount_root, const char *path)
{
	if (strcmp(path, "/..") == 0 || strncmp(path, "/../", 4) == 0)
		return NULL;
	size_t n = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
	if (strncmp(path, mount_root, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return strcmp(path + n, "/") == 0 ? "" : path + n;
}

/* Fills `ret` with the process's own cgroup and returns true; or, where this mount does not show
 * that cgroup, with the mount's root. */
static bool cgroup_mount_try(const char *root, const struct cgroup_mount *mount, const char *path,
	struct cgroup_place *ret)
{
	const char *below = cgroup_below(mount->root, path);
	int n = snprintf(
		ret->dir, sizeof ret->dir, "%s%s%s", root, mount->point, below ? below : "");
	ret->top = strlen(root) + strlen(mount->point);
	bool own = below && n > 0 && (size_t)n < sizeof ret->dir && cgroup_is_folder(ret->dir);
	if (!own && ret->top < sizeof ret->dir)
		ret->dir[ret->top] = 0;
	return own;
}

/* Whether a process is in the same cgroup as this one. A container may see its own cgroup as the
 * root, under a path that only the host knows; then the mount's root stands for it, and for the
 * other processes in it. */
static bool cgroup_with_us(
	const char *root, const char *process, const char *controller, const char *path)
{
	char ours[PATH_MAX];
	return strcmp(process, "self") == 0 ||
	       (cgroup_path_of(root, "self", controller, ours) && strcmp(path, ours) == 0);
}

/* Finds where the hierarchy of `controller` (NULL: v2) is mounted, and the process's folder in
 * it. */
static bool cgroup_find_of(
	const char *root, const char *process, const char *controller, struct cgroup_place *ret)
{
	cleanup(close_file) FILE *file = cgroup_open(root, "/proc/self/mountinfo");
	cleanup(free_ptr) char *line = NULL;
	size_t room = 0;
	char path[PATH_MAX];
	struct cgroup_mount mount;
	bool found = false;
	if (!file || !cgroup_path_of(root, process, controller, path))
		return false;
	while (getline(&line, &room, file) > 0) {
		struct cgroup_place place = {.v2 = !controller};
		if (!cgroup_mount_parse(line, &mount))
			continue;
		if (strcmp(mount.type, controller ? "cgroup" : "cgroup2") != 0)
			continue;
		if (controller && !cgroup_listed(mount.options, controller))
			continue;
		bool own = cgroup_mount_try(root, &mount, path, &place);
		if (own || (!found && cgroup_is_folder(place.dir))) {
			*ret = place;
			found = true;
		}
		if (own)
			return true;
	}
	return found && cgroup_with_us(root, process, controller, path);
}

static bool cgroup_find(const char *root, const char *controller, struct cgroup_place *ret)
{
	return cgroup_find_of(root, "self", controller, ret);
}

/* Goes up one level; false where `dir` is the top. */
static bool cgroup_up(struct cgroup_place *place)
{
	char *slash = strrchr(place->dir, '/');
	if (strlen(place->dir) <= place->top || !slash)
		return false;
	*slash = 0;
	return true;
}

/* Takes `limit` of the level whose usage was read last into account. Of two equal limits the
 * ancestor's counts, because more is charged to it. */
static void cgroup_tally_limit(
	struct cgroup_tally *tally, uint64_t limit, const char *dir, const char *name)
{
	struct cgroup_memory *memory = tally->memory;
	uint64_t taken = tally->seen_used - UTIL_MIN(tally->seen_reclaimable, tally->seen_used);
	uint64_t left = limit > taken ? limit - taken : 0;
	memory->available = UTIL_MIN(memory->available, left);
	if (limit > memory->limit)
		return;
	memory->limit = limit;
	memory->used = tally->seen_used;
	memory->reclaimable = tally->seen_reclaimable;
	int n = snprintf(memory->source, sizeof memory->source, "%s/%s", dir, name);
	/* This is only for people to read, and the name matters most. */
	if (n < 0 || (size_t)n >= sizeof memory->source)
		(void)snprintf(memory->source, sizeof memory->source, "%s", name);
}

static void cgroup_tally_v2(struct cgroup_tally *tally, const char *dir)
{
	/* Above memory.high the kernel does not kill, but it delays every allocation. For a plan
	 * that is a limit as well. */
	static const char *const limits[] = {"memory.max", "memory.high"};
	static const char *const cache[] = {"active_file", "inactive_file"};
	uint64_t limit;
	if (!cgroup_number(dir, "memory.current", &tally->seen_used))
		tally->seen_used = 0;
	if (!cgroup_stat(dir, cache, UTIL_COUNT(cache), &tally->seen_reclaimable))
		tally->seen_reclaimable = 0;
	for (size_t i = 0; i < UTIL_COUNT(limits); i++)
		if (cgroup_number(dir, limits[i], &limit))
			cgroup_tally_limit(tally, limit, dir, limits[i]);
}

static void cgroup_tally_v1(struct cgroup_tally *tally, const char *dir)
{
	/* "total_" includes the descendants, as the usage does. */
	static const char *const cache[] = {"total_active_file", "total_inactive_file"};
	uint64_t limit;
	if (!cgroup_number(dir, "memory.usage_in_bytes", &tally->seen_used))
		tally->seen_used = 0;
	if (!cgroup_stat(dir, cache, UTIL_COUNT(cache), &tally->seen_reclaimable))
		tally->seen_reclaimable = 0;
	if (cgroup_number(dir, "memory.limit_in_bytes", &limit))
		cgroup_tally_limit(tally, limit, dir, "memory.limit_in_bytes");
}

static void cgroup_walk_memory(struct cgroup_place *place, struct cgroup_tally *tally)
{
	static const char *const inherited[] = {"hierarchical_memory_limit"};
	uint64_t limit;
	/* v1 reports the tightest limit of ancestors that a container does not see, but not what is
	 * charged to them. The usage of the highest visible level stands for that. */
	bool hidden = !place->v2 && cgroup_stat(place->dir, inherited, 1, &limit);
	do {
		if (place->v2)
			cgroup_tally_v2(tally, place->dir);
		else
			cgroup_tally_v1(tally, place->dir);
	} while (cgroup_up(place));
	if (hidden && limit < tally->memory->limit)
		cgroup_tally_limit(tally, limit, place->dir, "memory.stat"); /* now the top */
}

/* A value of /proc/meminfo in bytes; 0 where it is missing. */
static uint64_t cgroup_meminfo(const char *root, const char *key)
{
	uint64_t kib = 0;
	return cgroup_sum(root, "/proc/meminfo", &key, 1, &kib) ? kib * 1024 : 0;
}

void cgroup_memory_read_at(const char *root, struct cgroup_memory *ret)
{
	uint64_t total = cgroup_meminfo(root, "MemTotal"), spare = cgroup_meminfo(root, "MemFree");
	uint64_t available = cgroup_meminfo(root, "MemAvailable");
	struct cgroup_place place;
	*ret = (struct cgroup_memory){
		.limit = total ? total : UINT64_MAX,
		.used = total - UTIL_MIN(spare, total),
		.reclaimable = available - UTIL_MIN(spare, available),
		.available = total ? UTIL_MAX(available, spare) : UINT64_MAX,
		.source = "MemTotal",
	};
	struct cgroup_tally tally = {.memory = ret};
	if (cgroup_find(root, "memory", &place))
		cgroup_walk_memory(&place, &tally);
	if (cgroup_find(root, NULL, &place))
		cgroup_walk_memory(&place, &tally);
}

void cgroup_memory_read(struct cgroup_memory *ret)
{
	cgroup_memory_read_at("", ret);
}

bool cgroup_memory_file(const char *v2, const char *v1, char *ret_path, size_t room)
{
	const char *const controllers[] = {"memory", NULL};
	for (size_t i = 0; i < UTIL_COUNT(controllers); i++) {
		struct cgroup_place place;
		char path[PATH_MAX];
		if (!cgroup_find("", controllers[i], &place))
			continue;
		int n = snprintf(path, sizeof path, "%s/%s", place.dir, place.v2 ? v2 : v1);
		if (n < 0 || (size_t)n >= UTIL_MIN(room, sizeof path) || access(path, R_OK) < 0)
			continue;
		memcpy(ret_path, path, (size_t)n + 1);
		return true;
	}
	return false;
}

/* CPUs that one level allows; 0 for no quota. */
static double cgroup_quota(const struct cgroup_place *place)
{
	uint64_t quota, period;
	if (place->v2) {
		cleanup(close_file) FILE *file = cgroup_open(place->dir, "/cpu.max");
		if (!file || fscanf(file, " %" SCNu64 " %" SCNu64, &quota, &period) != 2)
			return 0;
	} else if (!cgroup_number(place->dir, "cpu.cfs_quota_us", &quota) ||
		   !cgroup_number(place->dir, "cpu.cfs_period_us", &period)) {
		return 0;
	}
	/* No quota is -1 in v1, which reads as a huge unsigned number. */
	return period && quota <= INT64_MAX ? (double)quota / (double)period : 0;
}

static double cgroup_walk_cpu(struct cgroup_place *place, double least)
{
	do {
		double cpus = cgroup_quota(place);
		if (cpus > 0 && (least <= 0 || cpus < least))
			least = cpus;
	} while (cgroup_up(place));
	return least;
}

double cgroup_cpus_at(const char *root)
{
	struct cgroup_place place;
	double cpus = 0;
	if (cgroup_find(root, "cpu", &place))
		cpus = cgroup_walk_cpu(&place, cpus);
	if (cgroup_find(root, NULL, &place))
		cpus = cgroup_walk_cpu(&place, cpus);
	return cpus;
}

double cgroup_cpus(void)
{
	return cgroup_cpus_at("");
}

/* The longest time of all levels: an ancestor's quota holds back the whole subtree. */
static uint64_t cgroup_walk_throttled(struct cgroup_place *place, uint64_t most)
{
	static const char *const v2[] = {"throttled_usec"}, *const v1[] = {"throttled_time"};
	uint64_t time;
	do
		if (cgroup_sum(place->dir, "/cpu.stat", place->v2 ? v2 : v1, 1, &time))
			most = UTIL_MAX(most, place->v2 ? time : time / 1000);
	while (cgroup_up(place));
	return most;
}

uint64_t cgroup_throttled_us_at(const char *root)
{
	struct cgroup_place place;
	uint64_t most = 0;
	if (cgroup_find(root, "cpu", &place))
		most = cgroup_walk_throttled(&place, most);
	if (cgroup_find(root, NULL, &place))
		most = cgroup_walk_throttled(&place, most);
	return most;
}

uint64_t cgroup_throttled_us(void)
{
	return cgroup_throttled_us_at("");
}

/* ---- views ---- */

void cgroup_view_at(const char *root, int pid, struct cgroup_view *ret)
{
	char process[16] = "self", path[PATH_MAX];
	if (pid)
		(void)snprintf(process, sizeof process, "%d", pid);
	*ret = (struct cgroup_view){.path = ""};
	ret->has_unified = cgroup_find_of(root, process, NULL, &ret->unified);
	ret->has_memory = cgroup_find_of(root, process, "memory", &ret->memory);
	if (cgroup_path_of(root, process, ret->has_memory ? "memory" : NULL, path))
		(void)snprintf(ret->path, sizeof ret->path, "%s", path);
	if (!ret->has_memory && ret->has_unified) {
		ret->memory = ret->unified;
		ret->has_memory = true;
	}
}

/* Reads the limits of one level, and its usage where one of them is the tightest so far. */
static void cgroup_usage_level(const struct cgroup_place *place, struct cgroup_usage *usage)
{
	static const char *const limits_v2[] = {"memory.max", "memory.high"};
	static const char *const limits_v1[] = {"memory.limit_in_bytes"};
	const char *const *limits = place->v2 ? limits_v2 : limits_v1;
	size_t count = place->v2 ? UTIL_COUNT(limits_v2) : UTIL_COUNT(limits_v1);
	uint64_t limit, tightest = usage->limit;
	for (size_t i = 0; i < count; i++)
		/* In v1, no limit is a number too: 2^63 rounded down to whole pages. */
		if (cgroup_number(place->dir, limits[i], &limit) && limit < (uint64_t)1 << 62)
			tightest = UTIL_MIN(tightest, limit);
	if (tightest == usage->limit && usage->used != UINT64_MAX)
		return;
	usage->limit = tightest;
	(void)cgroup_number(
		place->dir, place->v2 ? "memory.current" : "memory.usage_in_bytes", &usage->used);
}

uint64_t cgroup_oom_kills(const struct cgroup_view *view)
{
	static const char *const keys[] = {"oom_kill"};
	uint64_t kills;
	const char *name = view->memory.v2 ? "/memory.events" : "/memory.oom_control";
	return view->has_memory && cgroup_sum(view->memory.dir, name, keys, 1, &kills) ? kills
										       : UINT64_MAX;
}

void cgroup_usage_read(const struct cgroup_view *view, struct cgroup_usage *ret)
{
	*ret = (struct cgroup_usage){UINT64_MAX, UINT64_MAX, cgroup_oom_kills(view)};
	struct cgroup_place place = view->memory;
	if (!view->has_memory)
		return;
	do
		cgroup_usage_level(&place, ret);
	while (cgroup_up(&place));
}
