/* top_terminal: the running daemon on a terminal, redrawn. See top_impl.h.
 *
 * Main thread: keys, signals, drawing. */
#include "client/cli/watch/top_impl.h"

#include "base/util.h"
#include "client/cli/answer.h"
#include "client/cli/cli.h"
#include "client/cli/table.h"
#include "client/cli/watch/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

bool top_terminal_possible(void)
{
	return screen_possible();
}

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

/* The last screen stays; a line above it tells how old it is. */
static void top_lost(struct top *top, const struct feed_answer *answer)
{
	if (!top->gone_s)
		top->gone_s = answer->at_s;
	struct table_words since = table_clock(answer->at_s - top->gone_s);
	if (answer->error == -ECONNREFUSED || answer->error == -EPIPE)
		(void)snprintf(top->view.gone, sizeof top->view.gone,
			"penstockd (pid %.0f) ended %s ago; `penstock why` tells how. Its last "
			"status is below. Waiting for the next daemon.",
			top->daemon_pid, since.text);
	else
		(void)snprintf(top->view.gone, sizeof top->view.gone,
			"no answer for %s: %.800s. The last answer is below. Asking again.",
			since.text, answer->said);
}

/* Whether the screen has to be drawn again. */
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

/* The signal that ends the program; 0: continue. */
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

/* False: the user quit. */
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

/* Runs until a key or a signal ends it; returns the signal. */
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

/* Waits for the first answer before it touches the terminal: without a daemon there is nothing to
 * show. */
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
		return cli_fail(CLI_FAILED, "cannot start the thread that asks the daemon: %s",
			strerror(errno));
	return CLI_OK;
}

int top_terminal(struct top *top)
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
	/* The process ends by the signal, as it would have without a handler, for a parent that
	 * checks. */
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return CLI_FAILED;
}
