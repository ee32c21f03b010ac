/* why: the command line of `penstock why`, and its report for people. See why.h. */
#include "client/cli/watch/why/why.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/options.h"
#include "client/cli/table.h"
#include "client/cli/watch/why/why.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

enum {
	WHY_LABEL = 10, /* columns of "on devices" */
	WHY_NARROW = 20, /* a terminal that reports fewer columns does not know its width */
	WHY_SHOWN = 6, /* processes of one event */
	WHY_NAMES = 12, /* processes to list when none was found */
	WHY_TEXT = 1024,
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

/* A number is a process; anything else is a file. */
static int why_operand(struct why *why, const char *operand)
{
	if (!operand)
		return 0;
	if (strspn(operand, "0123456789") != strlen(operand)) {
		why->named = operand;
		if (!why->given)
			return 0;
		cli_note("--folder and the file \"%s\" both say where to look: give only one of "
			 "them",
			operand);
		return -EINVAL;
	}
	errno = 0;
	unsigned long long pid = strtoull(operand, NULL, 10);
	if (errno || pid < 1 || pid > INT32_MAX) {
		cli_note("expected a process ID from 1 to %d, got \"%s\"; for a file of that name "
			 "write ./%s",
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

/* Prints a text from the records on the terminal. */
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

/* `next`: the next end of the same event; advice that both share is printed once. */
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

/* "2026-11-22 05:12:44" and, if several processes ended together, what they have in common. */
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

/* Prints the event that begins with the end `at`; returns where the next begins. A job of many
 * ranks that dies because of one of them is not reported rank by rank. */
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
		(void)printf("and %zu more; `penstock why PID` reports on one of them\n", more);
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

/* The processes that the files mention, newest first. */
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
		return cli_fail(CLI_FAILED, "%s: nothing has been recorded yet", where);
	if (why->pid)
		return cli_fail(CLI_FAILED, "%s: no record of process %d; there are records of %s",
			where, why->pid, names);
	return cli_fail(CLI_FAILED,
		"%s: no record of a failure; there are records of %s (--all reports on them)",
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
