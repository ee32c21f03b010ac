/* top: what the running daemon is doing, redrawn once a second; as plain text where there is no
 * terminal.
 *
 * Main thread: keys, signals, drawing. The daemon is asked in a thread of its own (feed.h), one
 * question each interval. What is drawn where is top_view's; how it gets on the terminal is
 * screen's. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/answer.h"
#include "client/cli/feed.h"
#include "client/cli/options.h"
#include "client/cli/screen.h"
#include "client/cli/table.h"
#include "client/cli/top_view.h"

#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>

enum { TOP_FILE_COLUMNS = 100, TOP_LEAST_COLUMNS = 20, TOP_MOST_COLUMNS = 1000 };

struct top {
	const char *socket;
	double interval_s;
	uint64_t count; /* snapshots; 0: without end */
	bool json;
	struct top_view view;
	struct feed *feed;
	int signals; /* signalfd */
	/* The last answer, the one before, when they came; and since when there is none. */
	struct node *now, *before;
	double now_s, before_s, gone_s;
	double daemon_pid;
};

static bool top_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Takes over `root`. */
static void top_take(struct top *top, struct node *root, double at_s)
{
	document_free(top->before);
	top->before = top->now;
	top->before_s = top->now_s;
	top->now = root;
	top->now_s = at_s;
	top->daemon_pid = document_number(root, "pid", 0);
	top_view_take(&top->view, top->now, top->before, top->now_s - top->before_s);
}

static void top_forget(struct top *top)
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
	return failed ? cli_fail(CLI_FAILED, "no memory for a page of text") : CLI_OK;
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
		/* Nobody reads it any more. */
		if (fflush(stdout) != 0)
			break;
	}
	top_forget(top);
	return r;
}

/* ---- on a terminal ---- */

static void top_draw(struct top *top)
{
	struct paper paper;
	int columns, lines;
	screen_size(&columns, &lines);
	paper_init(&paper, columns, top->view.utf8);
	top_view_draw(&top->view, lines, &paper);
	screen_draw(&paper);
	paper_free(&paper);
}

/* The picture stays; above it stands since when it is old. */
static void top_lost(struct top *top, const struct feed_answer *answer)
{
	char since[24];
	if (!top->gone_s)
		top->gone_s = answer->at_s;
	(void)table_clock(answer->at_s - top->gone_s, since, sizeof since);
	if (answer->error == -ECONNREFUSED || answer->error == -EPIPE)
		(void)snprintf(top->view.gone, sizeof top->view.gone,
			"penstockd (pid %.0f) has ended, %s ago: `penstock why` tells how. Below "
			"is what it was doing last; waiting for the next one.",
			top->daemon_pid, since);
	else
		(void)snprintf(top->view.gone, sizeof top->view.gone,
			"no answer, for %s: %.800s. Below is the last one; asking again.", since,
			answer->said);
}

/* Whether there is something else to draw. */
static bool top_hear(struct top *top)
{
	struct feed_answer answer;
	if (!feed_take(top->feed, &answer))
		return false;
	if (!answer.root) {
		top_lost(top, &answer);
		return true;
	}
	bool was_gone = top->view.gone[0];
	top->gone_s = 0;
	top->view.gone[0] = 0;
	if (!top->view.paused)
		top_take(top, answer.root, answer.at_s);
	else
		document_free(answer.root);
	return !top->view.paused || was_gone;
}

/* The signal that ends it; 0 when it goes on. */
static int top_signal(struct top *top)
{
	struct signalfd_siginfo info;
	if (read(top->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return 0;
	if (info.ssi_signo == SIGWINCH)
		screen_resized();
	else if (info.ssi_signo == SIGCONT)
		screen_redraw();
	else if (info.ssi_signo == SIGTSTP)
		screen_suspend();
	else
		return (int)info.ssi_signo;
	top_draw(top);
	return 0;
}

/* False: it was told to quit. */
static bool top_keys(struct top *top)
{
	enum { TOP_FORM_FEED = 12 };
	bool draw = false;
	for (int key = screen_key(); key; key = screen_key()) {
		double before_s = top->view.interval_s;
		enum top_outcome outcome = top_view_key(&top->view, key);
		if (outcome == TOP_QUIT)
			return false;
		if (key == TOP_FORM_FEED)
			screen_redraw();
		if (top->view.interval_s != before_s)
			feed_pace(top->feed, top->view.interval_s);
		draw = draw || outcome == TOP_REDRAW || key == TOP_FORM_FEED;
	}
	if (draw)
		top_draw(top);
	return true;
}

/* Until a key or a signal, which is returned, ends it. */
static int top_loop(struct top *top)
{
	for (;;) {
		struct pollfd fd[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			{.fd = top->signals, .events = POLLIN},
			{.fd = feed_fd(top->feed), .events = POLLIN}};
		/* A debugger may interrupt it. */
		if (poll(fd, UTIL_COUNT(fd), -1) < 0)
			continue;
		int signal = fd[1].revents ? top_signal(top) : 0;
		if (signal)
			return signal;
		if ((fd[2].revents & POLLIN) && top_hear(top))
			top_draw(top);
		if ((fd[0].revents & POLLIN) && !top_keys(top))
			return 0;
		/* The terminal is gone. */
		if (fd[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return 0;
	}
}

/* The first answer comes before the terminal is touched: without a daemon there is nothing to show.
 */
static int top_begin(struct top *top)
{
	struct node *root;
	char said[ANSWER_SENTENCE];
	if (answer_ask(top->socket, NULL, &root, said) < 0)
		return cli_fail(CLI_FAILED, "%s", said);
	top_take(top, root, feed_now_s());
	top->view.interval_s = top->interval_s;
	top->feed = feed_start(top->socket, top->interval_s);
	if (!top->feed)
		return cli_fail(CLI_FAILED, "cannot start a thread that asks the daemon: %s",
			strerror(errno));
	return CLI_OK;
}

static int top_terminal(struct top *top)
{
	sigset_t signals, before;
	const char *no_color = getenv("NO_COLOR");
	int r = top_begin(top);
	if (r != CLI_OK)
		return r;
	(void)sigemptyset(&signals);
	static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT, SIGTSTP};
	for (size_t i = 0; i < UTIL_COUNT(wanted); i++)
		(void)sigaddset(&signals, wanted[i]);
	(void)sigprocmask(SIG_BLOCK, &signals, &before);
	top->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (top->signals < 0)
		return cli_fail(CLI_FAILED, "cannot watch for signals: %s", strerror(errno));
	if (screen_open(!(no_color && *no_color)) < 0)
		return cli_fail(CLI_FAILED, "cannot draw on this terminal; --plain prints text");
	top_draw(top);
	int signal_number = top_loop(top);
	screen_close();
	(void)close(top->signals);
	top_forget(top);
	if (!signal_number)
		return CLI_OK;
	/* It ends as it would have without a handler, for those who look. */
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return CLI_FAILED;
}

int top_main(int argc, char **argv)
{
	static const struct command command = {
		.name = "top",
		.operands = "",
		.about = "Shows what the running daemon is doing, and what holds it up, once a "
			 "second;\n"
			 "? tells the keys. Where there is no terminal it prints one picture as "
			 "text.",
	};
	struct top top = {.interval_s = 1};
	bool plain = false, paced = false, counted = false;
	const char *operand[OPTIONS_OPERANDS];
	const struct option table[] = {
		{"socket", 0, OPTION_TEXT, &top.socket, "PATH",
			"the daemon's socket (PENSTOCK_SOCKET, or the user's)", 0, 0, NULL},
		{"interval", 'i', OPTION_SECONDS, &top.interval_s, "SECONDS",
			"between two questions, 0.2 to 60 (1); as text: goes on until interrupted",
			0, 60, &paced},
		{"count", 'n', OPTION_NUMBER, &top.count, "N", "print N pictures as text", 1,
			UINT64_MAX, &counted},
		{"plain", 0, OPTION_FLAG, &plain, NULL, "print text on a terminal too", 0, 0, NULL},
		{"json", 'j', OPTION_FLAG, &top.json, NULL,
			"print the daemon's JSON, a line for each question", 0, 0, NULL},
	};
	int r = options_parse(&command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	if (top.interval_s < top_interval_least_s)
		return cli_fail(CLI_USAGE, "--interval is %g s; from 0.2 to 60 are possible",
			top.interval_s);
	top.view.utf8 = top_utf8();
	if (!plain && !top.json && !counted && screen_possible())
		return top_terminal(&top);
	if (!counted && !paced)
		top.count = 1;
	return top_text(&top);
}
