/* top: `penstock top` shows what the running daemon is doing: redrawn once a second on a terminal
 * (top_terminal.c), else as plain text, here.
 *
 * Main thread. For a terminal, feed.h asks the daemon in a thread of its own, once per interval.
 * top_view decides what is drawn where; screen puts it on the terminal. */
#include "client/cli/watch/top_impl.h"

#include "base/util.h"
#include "client/cli/answer.h"
#include "client/cli/cli.h"
#include "client/cli/find.h"
#include "client/cli/options.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { TOP_FILE_COLUMNS = 100, TOP_LEAST_COLUMNS = 20, TOP_MOST_COLUMNS = 1000 };

static bool top_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void top_take(struct top *top, struct node *root, double at_s)
{
	document_free(top->before);
	top->before = top->now;
	top->before_s = top->now_s;
	top->now = root;
	top->now_s = at_s;
	top->daemon_pid = document_number(root, "pid", 0);
	top_view_take(&top->view, top->now, top->before, top->now_s - top->before_s);
}

void top_forget(struct top *top)
{
	document_free(top->before);
	document_free(top->now);
}

/* ---- as text ---- */

static int top_columns(void)
{
	struct winsize size;
	const char *given = getenv("COLUMNS");
	long columns = given ? strtol(given, NULL, 10) : 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		columns = size.ws_col;
	if (columns <= 0)
		columns = TOP_FILE_COLUMNS;
	return (int)UTIL_MAX(UTIL_MIN(columns, TOP_MOST_COLUMNS), TOP_LEAST_COLUMNS);
}

static void top_stamp(void)
{
	char text[64];
	struct tm now;
	time_t seconds = time(NULL);
	if (localtime_r(&seconds, &now) && strftime(text, sizeof text, "%F %T", &now))
		(void)printf("%s\n", text);
}

static int top_snapshot(struct top *top)
{
	struct node *root;
	char said[ANSWER_SENTENCE];
	cleanup(free_ptr) char *text = NULL;
	struct paper paper;
	if (answer_ask(top->socket, &text, &root, said) < 0)
		return cli_fail(CLI_FAILED, "%s", said);
	top_take(top, root, feed_now_s());
	if (top->json) {
		(void)printf("%s\n", text);
		return CLI_OK;
	}
	paper_init(&paper, top_columns(), top->view.utf8);
	top_view_print(&top->view, &paper);
	paper_print(&paper, stdout);
	bool failed = paper.failed;
	paper_free(&paper);
	return failed ? cli_fail(CLI_FAILED, "not enough memory for a page of text") : CLI_OK;
}

static int top_text(struct top *top)
{
	int r = CLI_OK;
	top->view.plain = true;
	for (uint64_t i = 0; r == CLI_OK && (!top->count || i < top->count); i++) {
		if (i) {
			struct timespec wait = {.tv_sec = (time_t)top->interval_s};
			wait.tv_nsec = (long)((top->interval_s - (double)wait.tv_sec) * 1e9);
			(void)nanosleep(&wait, NULL);
		}
		if (i && !top->json)
			(void)printf("\n");
		if (top->count != 1 && !top->json)
			top_stamp();
		r = top_snapshot(top);
		/* The reader of the pipe is gone. */
		if (fflush(stdout) != 0)
			break;
	}
	top_forget(top);
	return r;
}

int top_main(int argc, char **argv)
{
	static const struct command command = {
		.name = "top",
		.operands = "",
		.about = "Shows what the running daemon is doing, and what limits it, once a "
			 "second.\n"
			 "? shows the keys. Without a terminal it prints one screen as text.",
	};
	struct top top = {.interval_s = 1};
	bool plain = false, paced = false, counted = false;
	const char *operand[OPTIONS_OPERANDS];
	const struct option table[] = {
		{"socket", 0, OPTION_TEXT, &top.socket, "PATH",
			"the daemon's socket (PENSTOCK_SOCKET, or the one found)", 0, 0, NULL},
		{"interval", 'i', OPTION_SECONDS, &top.interval_s, "SECONDS",
			"time between two requests, 0.2 to 60 (1); with text output also: go on "
			"until interrupted",
			TOP_INTERVAL_LEAST_MS, TOP_INTERVAL_MOST_S, &paced},
		{"count", 'n', OPTION_NUMBER, &top.count, "N", "print N screens as text", 1,
			UINT64_MAX, &counted},
		{"plain", 0, OPTION_FLAG, &plain, NULL, "print text even on a terminal", 0, 0,
			NULL},
		{"json", 'j', OPTION_FLAG, &top.json, NULL,
			"print the daemon's answers, one JSON object on a line", 0, 0, NULL},
	};
	int r = options_parse(&command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	char socket[FIND_SOCKET];
	if (!top.socket) {
		r = find_daemon(socket);
		if (r != CLI_OK)
			return r;
		top.socket = socket;
	}
	top.view.utf8 = top_utf8();
	if (!plain && !top.json && !counted && top_terminal_possible())
		return top_terminal(&top);
	if (!counted && !paced)
		top.count = 1;
	return top_text(&top);
}
