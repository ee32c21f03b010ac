/* why_files: finds and reads the flight recorder's files, has the story of each told, and chooses
 * which ends are shown. See why.h. */
#include "client/cli/watch/why/why.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "record/probe.h"
#include "record/ring.h"
#include "record/ring_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { WHY_PAUSE_MS = 20, WHY_PATIENCE_MS = 2000 };

static uint64_t why_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * WHY_SECOND_NS + (uint64_t)now.tv_nsec;
}

/* The kernel may have reused its pid; pid and start time together are unique. */
static bool why_lives(const struct record_start *start)
{
	struct probe_process process;
	return start && probe_process_at("", start->pid, &process) && !process.ended &&
	       process.start_ticks == start->start_ticks;
}

/* A recorder holds a lock on its file while it runs. */
static bool why_is_written(const char *path)
{
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* The recorder outlives its daemon by a moment, in which it writes how the daemon ended. Waits for
 * that. */
static int why_read_settled(
	struct why_file *file, size_t *ret_count, bool *ret_lives, struct fault *fault)
{
	const struct timespec pause = {.tv_nsec = WHY_PAUSE_MS * 1000000L};
	for (int waited_ms = 0;; waited_ms += WHY_PAUSE_MS) {
		int r = ring_read(file->path, &file->records, ret_count, fault);
		if (r < 0)
			return r;
		const struct record_start *start = story_start(file->records, *ret_count);
		*ret_lives = why_lives(start);
		if (!start || *ret_lives || waited_ms >= WHY_PATIENCE_MS ||
			!why_is_written(file->path))
			return 0;
		free(file->records);
		file->records = NULL;
		(void)nanosleep(&pause, NULL);
	}
}

/* The first of the later daemons that the trainer attached to after this one ended. */
static int32_t why_next_daemon(const struct why *why, const struct record_start *start,
	const struct record_attach *attach, uint64_t since_ns)
{
	for (size_t i = why->kept; i-- > 0;) {
		const struct story *story = &why->file[i].story;
		if (!story->start || !start->boot_id[0] || !attach->start_ticks ||
			strcmp(story->start->boot_id, start->boot_id) != 0)
			continue;
		for (size_t k = 0; k < story->count; k++)
			if (!story->end[k].daemon && story->end[k].pid == attach->pid &&
				story->end[k].start_ticks == attach->start_ticks &&
				story->end[k].since_ns >= since_ns)
				return story->start->pid;
	}
	return 0;
}

/* A pid is valid on one machine, and for one boot of it. */
static struct story_fate why_fate(void *context, const struct record_start *start,
	const struct record_attach *attach, uint64_t since_ns)
{
	const struct why *why = context;
	struct probe_process process;
	bool here = strcmp(start->boot_id, why->boot_id) == 0;
	return (struct story_fate){.daemon = why_next_daemon(why, start, attach, since_ns),
		.lives = here && attach->start_ticks &&
			 probe_process_at("", attach->pid, &process) && !process.ended &&
			 process.start_ticks == attach->start_ticks};
}

/* 0; or a negative errno with a fault, and the file is ignored. */
static int why_read(struct why *why, struct why_file *file, struct fault *fault)
{
	size_t count;
	bool lives;
	int r = why_read_settled(file, &count, &lives, fault);
	if (r < 0)
		return r;
	const struct record_start *start = story_start(file->records, count);
	const struct story_now now = {.time_ns = why_now_ns(),
		.boot_id = why->boot_id,
		.host = why->machine.nodename,
		.daemon_lives = lives && strcmp(start->boot_id, why->boot_id) == 0,
		.fate = why_fate,
		.fate_context = why};
	r = story_tell(file->records, count, &now, &file->story);
	if (r < 0)
		return fault_set(fault, r, "%s: not enough memory to read it", file->path);
	file->told = true;
	return 0;
}

void why_forget(struct why_file *file)
{
	if (file->told)
		story_free(&file->story);
	free(file->records);
	file->told = false;
	file->records = NULL;
}

static int why_is_record(const struct dirent *entry)
{
	return fnmatch(RING_FOLDER_PREFIX "*" RING_FOLDER_SUFFIX, entry->d_name, 0) == 0;
}

/* Their names begin with the start time: the newest file comes first. */
static int why_newest(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*b)->d_name, (*a)->d_name);
}

static int why_list(struct why *why)
{
	struct dirent **names;
	int n = scandir(why->folder, &names, why_is_record, why_newest);
	if (n < 0)
		return cli_fail(errno == ENOENT ? CLI_FAILED : cli_exit_code(-errno),
			"%s: no record: %s; penstockd writes one unless its recorder is off",
			why->folder, strerror(errno));
	why->file = calloc((size_t)UTIL_MAX(n, 1), sizeof *why->file);
	for (int i = 0; i < n; i++) {
		if (why->file)
			(void)snprintf(why->file[why->files++].path, PATH_MAX, "%s/%s", why->folder,
				names[i]->d_name);
		free(names[i]);
	}
	free(names);
	if (!why->file)
		return cli_fail(CLI_FAILED, "not enough memory for the names of %d files", n);
	if (!n)
		return cli_fail(CLI_FAILED, "%s: no record: no daemon has run with its recorder on",
			why->folder);
	return CLI_OK;
}

int why_find_files(struct why *why)
{
	struct fault fault;
	int r;
	if (why->named) {
		why->file = calloc(1, sizeof *why->file);
		if (!why->file)
			return cli_fail(CLI_FAILED, "not enough memory");
		why->files = 1;
		(void)snprintf(why->file->path, PATH_MAX, "%s", why->named);
		return CLI_OK;
	}
	r = ring_folder_resolve(why->given, why->folder, sizeof why->folder, &fault);
	if (r < 0)
		return cli_fail(CLI_USAGE, "%s", fault.text);
	return why_list(why);
}

/* ---- choosing ---- */

bool why_tells(const struct why *why, const struct story_end *end)
{
	if (why->pid)
		return end->pid == why->pid;
	return why->all || story_matters(end);
}

size_t why_count(const struct why *why, const struct story *story)
{
	size_t n = 0;
	for (size_t i = 0; i < story->count; i++)
		n += why_tells(why, &story->end[i]);
	return n;
}

/* Whether something went wrong. The end of a daemon that was idle, or ended on request, is
 * reported, but the search for an older failure continues. */
static bool why_is_bad(const struct story *story)
{
	for (size_t i = 0; i < story->count; i++)
		if (story_matters(&story->end[i]) && story->end[i].cause != STORY_ASKED &&
			story->end[i].cause != STORY_IDLE)
			return true;
	return false;
}

int why_search(struct why *why)
{
	struct fault fault;
	size_t unread = 0;
	bool enough = false;
	for (size_t i = 0; i < why->files && !enough; i++) {
		struct why_file *file = &why->file[i];
		int r = why_read(why, file, &fault);
		if (r < 0) {
			why_forget(file);
			cli_note("%s", fault.text);
			unread++;
			continue;
		}
		size_t n = why_count(why, &file->story);
		enough = why->pid ? n > 0 : why_is_bad(&file->story);
		why->found += n;
		if (why->kept != i) {
			why->file[why->kept] = *file;
			*file = (struct why_file){0};
		}
		why->kept++;
	}
	bool none = unread == why->files;
	why->files = why->kept;
	if (none && why->named)
		return CLI_USAGE; /* the reason has been printed */
	return none ? cli_fail(CLI_FAILED, "no record could be read") : CLI_OK;
}
