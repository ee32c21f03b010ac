/* why: what happened to trainers and to the daemon, out of the flight recorder's files. Needs no
 * daemon: it is asked when that has gone.
 *
 * The telling is client/cli/watch/why/story; here the files are found, and the story is printed for people
 * or as JSON. Main thread. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/options.h"
#include "client/cli/table.h"
#include "client/cli/watch/why/why.h"
#include "record/probe.h"
#include "record/ring.h"
#include "record/ring_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

enum {
	WHY_LABEL = 10, /* columns of "on devices" */
	WHY_NARROW = 20, /* a terminal that says less does not know */
	WHY_SHOWN = 6, /* of one event */
	WHY_NAMES = 12, /* processes that are listed when none was found */
	WHY_TEXT = 1024,
	WHY_PAUSE_MS = 20,
	WHY_PATIENCE_MS = 2000,
};

static const struct command why_command = {
	.name = "why",
	.operands = "[PID | FILE]",
	.max_operands = 1,
	.about = "Reports how trainers and the daemon ended, and what led to it, from the "
		 "records\nof the flight recorder: those of the newest daemon that has something "
		 "to report,\nof one process (PID), or of one FILE. Exit: 0 reported; 1 nothing to "
		 "report, or\nfailed; 2 usage.",
};

/* ---- the command line ---- */

/* A number is a process, all else is a file. */
static int why_operand(struct why *why, const char *operand)
{
	if (!operand)
		return 0;
	if (strspn(operand, "0123456789") != strlen(operand)) {
		why->named = operand;
		if (!why->given)
			return 0;
		cli_note("--folder says where to look, and \"%s\" already names a file: leave one "
			 "out",
			operand);
		return -EINVAL;
	}
	errno = 0;
	unsigned long long pid = strtoull(operand, NULL, 10);
	if (errno || pid < 1 || pid > INT32_MAX) {
		cli_note("expected the number of a process, 1 to %d, got \"%s\"; a file of that "
			 "name is ./%s",
			INT32_MAX, operand, operand);
		return -EINVAL;
	}
	why->pid = (int32_t)pid;
	return 0;
}

static int why_options(struct why *why, int argc, char **argv)
{
	const struct option table[] = {
		{"folder", 0, OPTION_TEXT, &why->given, "FOLDER",
			"the folder of the recorder's files (XDG_STATE_HOME/penstock)", 0, 0, NULL},
		{"all", 'a', OPTION_FLAG, &why->all, NULL,
			"also report on processes that are running or ended in order", 0, 0, NULL},
		{"json", 'j', OPTION_FLAG, &why->json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS] = {NULL};
	int r = options_parse(&why_command, table, UTIL_COUNT(table), argc, argv, operand);
	return r == OPTIONS_OK ? why_operand(why, operand[0]) : r;
}

/* ---- now ---- */

static void why_look_around(struct why *why)
{
	struct winsize size;
	cleanup(close_file) FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (file && fgets(why->boot_id, sizeof why->boot_id, file))
		why->boot_id[strcspn(why->boot_id, "\n")] = 0;
	(void)uname(&why->machine);
	why->width = INT_MAX;
	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
		size.ws_col >= WHY_NARROW)
		why->width = size.ws_col;
}

static uint64_t why_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * WHY_SECOND_NS + (uint64_t)now.tv_nsec;
}

/* Its number may be another's by now; with its beginning it is not. */
static bool why_lives(const struct record_start *start)
{
	struct probe_process process;
	return start && probe_process_at("", start->pid, &process) && !process.ended &&
	       process.start_ticks == start->start_ticks;
}

/* ---- files ---- */

/* A recorder that writes holds a lock on its file. */
static bool why_is_written(const char *path)
{
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* The recorder outlives its daemon by a moment, in which it writes how that ended: waits for it. */
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

/* Of daemons that came later: the first that the trainer attached to when this one had ended. */
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

/* The numbers of processes are a machine's, and of one boot of it. */
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

/* 0; or a negative errno with a fault: then the file counts for nothing. */
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
		return fault_set(fault, r, "no memory to tell what is in %s", file->path);
	file->told = true;
	return 0;
}

static void why_forget(struct why_file *file)
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

/* Their names begin with the time of the start: the newest comes first. */
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
			"there is no record: %s: %s; a daemon with its recorder on makes it",
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
		return cli_fail(CLI_FAILED, "no memory for the names of %d files", n);
	if (!n)
		return cli_fail(CLI_FAILED,
			"there is no record in %s: no daemon has run with its recorder on",
			why->folder);
	return CLI_OK;
}

static int why_find_files(struct why *why)
{
	struct fault fault;
	int r;
	if (why->named) {
		why->file = calloc(1, sizeof *why->file);
		if (!why->file)
			return cli_fail(CLI_FAILED, "no memory");
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

/* Whether something went wrong: a daemon that was asked to end or idle is told of, but what was
 * before it is, too. */
static bool why_is_bad(const struct story *story)
{
	for (size_t i = 0; i < story->count; i++)
		if (story_matters(&story->end[i]) && story->end[i].cause != STORY_ASKED &&
			story->end[i].cause != STORY_IDLE)
			return true;
	return false;
}

/* Reads from the newest on until what was asked for is found. */
static int why_search(struct why *why)
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
		return CLI_USAGE; /* it has been said why */
	return none ? cli_fail(CLI_FAILED, "no record could be read") : CLI_OK;
}

/* ---- for people ---- */

static const char *why_time(uint64_t ns, char *buffer, size_t room)
{
	struct tm parts;
	time_t s = (time_t)(ns / WHY_SECOND_NS);
	buffer[0] = 0;
	if (localtime_r(&s, &parts))
		(void)strftime(buffer, room, "%Y-%m-%d %H:%M:%S", &parts);
	return buffer;
}

/* A text of the records' for the terminal. */
static void why_line(const struct why *why, const char *label, const char *sentence)
{
	char text[WHY_TEXT];
	(void)snprintf(text, sizeof text, "%s", sentence);
	table_sentence(2, WHY_LABEL, label, cli_tame(text), why->width);
}

static void why_title(const struct why *why, const struct why_file *file)
{
	const struct story *story = &file->story;
	const struct record_start *start = story->start;
	enum { DAY = 11 }; /* bytes of "2026-11-22 " */
	char from[32], to[32], text[WHY_TEXT], path[PATH_MAX];
	(void)snprintf(path, sizeof path, "%s", file->path);
	why_time(story->first_ns, from, sizeof from);
	why_time(story->last_ns, to, sizeof to);
	bool same = strncmp(from, to, DAY) == 0;
	(void)snprintf(text, sizeof text, "penstockd %d%s%s, recorded from %s to %s",
		start ? start->pid : 0, start && start->host[0] ? " on " : "",
		start ? start->host : "", from, same ? to + strnlen(to, DAY) : to);
	table_paragraph(2, cli_tame(text), why->width);
	(void)printf("  %s\n", cli_tame(path));
}

static bool why_briefly(const char *label)
{
	return strcmp(label, "command") == 0 || strcmp(label, "batches") == 0 ||
	       strcmp(label, "trainers") == 0;
}

/* `next`, of the same event: what both are to be told is told once. */
static void why_end(
	const struct why *why, const struct story_end *end, const struct story_end *next)
{
	char sentence[WHY_TEXT];
	(void)snprintf(sentence, sizeof sentence, "%s", end->sentence);
	table_paragraph(2, cli_tame(sentence), why->width);
	for (unsigned i = 0; i < end->lines; i++)
		if (why->pid || why_briefly(end->line[i].label))
			why_line(why, end->line[i].label, end->line[i].text);
	if (end->advice[0] && !(next && strcmp(next->advice, end->advice) == 0))
		why_line(why, "to do", end->advice);
}

/* "2026-11-22 05:12:44" and, of several that ended together, what they have in common. */
static void why_heading(
	const struct why *why, const struct story *story, const struct story_end *end)
{
	char when[32], event[160], text[256];
	why_time(end->end_ns, when, sizeof when);
	bool several = !why->pid && story_event(story, end->event, event, sizeof event);
	(void)snprintf(
		text, sizeof text, "%s%s%s", when, several ? ": " : "", several ? event : "");
	(void)printf("\n");
	table_paragraph(2, cli_tame(text), why->width);
}

/* Of an event, from the end `at` on; returns where the next begins. A job of many ranks that dies
 * of one of them is not told rank by rank. */
static size_t why_event(const struct why *why, const struct story *story, size_t at)
{
	const struct story_end *end = &story->end[at];
	size_t shown = 0, more = 0, i = at;
	bool event = end->event >= 0 && !why->pid;
	why_heading(why, story, end);
	for (; i < story->count && (i == at || (event && story->end[i].event == end->event)); i++) {
		const struct story_end *one = &story->end[i], *next = one + 1;
		if (i + 1 == story->count || !event || next->event != end->event)
			next = NULL;
		if (shown < WHY_SHOWN || one->daemon)
			why_end(why, one, shown + 1 < WHY_SHOWN ? next : NULL);
		else
			more++;
		shown++;
	}
	if (more)
		(void)printf("and %zu more; penstock why PID tells of one\n", more);
	return i;
}

static void why_people_file(const struct why *why, const struct why_file *file)
{
	const struct story *story = &file->story;
	why_title(why, file);
	for (size_t i = 0; i < story->count;)
		i = why_tells(why, &story->end[i]) ? why_event(why, story, i) : i + 1;
}

static void why_people(const struct why *why)
{
	bool first = true;
	for (size_t i = 0; i < why->files; i++) {
		if (!why_count(why, &why->file[i].story))
			continue;
		if (!first)
			(void)printf("\n");
		first = false;
		why_people_file(why, &why->file[i]);
	}
}

/* ---- nothing ---- */

/* The processes that the files know of, newest first. */
static void why_names(const struct why *why, char *text, size_t room)
{
	size_t shown = 0, at = 0;
	text[0] = 0;
	for (size_t i = 0; i < why->files; i++) {
		for (size_t k = 0; k < why->file[i].story.count; k++, shown++) {
			const struct story_end *end = &why->file[i].story.end[k];
			if (shown < WHY_NAMES && at < room)
				at += (size_t)snprintf(text + at, room - at, "%s%s %d",
					shown ? ", " : "", end->daemon ? "penstockd" : "trainer",
					end->pid);
		}
	}
	if (shown > WHY_NAMES && at < room)
		(void)snprintf(text + at, room - at, " and %zu more", shown - WHY_NAMES);
}

static int why_nothing(const struct why *why)
{
	const char *where = why->named ? why->named : why->folder;
	char names[512];
	why_names(why, names, sizeof names);
	if (why->json && why_machine(why) != CLI_OK)
		return CLI_FAILED;
	if (!names[0])
		return cli_fail(CLI_FAILED, "nothing has been recorded yet in %s", where);
	if (why->pid)
		return cli_fail(
			CLI_FAILED, "%s knows no process %d; it knows %s", where, why->pid, names);
	return cli_fail(CLI_FAILED,
		"nothing has gone wrong as far as %s says; it knows %s (--all tells of them)",
		where, names);
}

int why_main(int argc, char **argv)
{
	struct why why = {0};
	int r = why_options(&why, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	why_look_around(&why);
	int code = why_find_files(&why);
	if (code == CLI_OK)
		code = why_search(&why);
	if (code == CLI_OK && !why.found)
		code = why_nothing(&why);
	else if (code == CLI_OK && why.json)
		code = why_machine(&why);
	else if (code == CLI_OK)
		why_people(&why);
	for (size_t i = 0; i < why.files; i++)
		why_forget(&why.file[i]);
	free(why.file);
	return code;
}
