/* screen: see screen.h. */
#include "client/cli/watch/screen.h"

#include "client/cli/watch/top_view.h"

#include <errno.h>
#include <ncurses.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

enum { SCREEN_GOOD = 1, SCREEN_WARN, SCREEN_BAD, SCREEN_ESC_MS = 50 };

static SCREEN *screen;

bool screen_possible(void)
{
	int error;
	char clear_name[] = "clear", move_name[] = "cup";
	if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
		return false;
	if (setupterm(NULL, STDOUT_FILENO, &error) == ERR)
		return false;
	const char *move_to = tigetstr(move_name), *clear_all = tigetstr(clear_name);
	/* tigetstr returns NULL for an absent capability, and -1 for a name of another type. */
	bool moves = move_to && move_to != (char *)-1 && clear_all && clear_all != (char *)-1;
	(void)del_curterm(cur_term);
	return moves;
}

int screen_open(bool colors)
{
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return -ENOTTY;
	(void)set_term(screen);
	(void)cbreak();
	(void)noecho();
	(void)nonl();
	(void)keypad(stdscr, TRUE);
	(void)nodelay(stdscr, TRUE);
	(void)set_escdelay(SCREEN_ESC_MS);
	(void)curs_set(0);
	if (colors && has_colors()) {
		(void)start_color();
		(void)use_default_colors();
		(void)init_pair(SCREEN_GOOD, COLOR_GREEN, -1);
		(void)init_pair(SCREEN_WARN, COLOR_YELLOW, -1);
		(void)init_pair(SCREEN_BAD, COLOR_RED, -1);
	}
	return 0;
}

void screen_close(void)
{
	if (!screen)
		return;
	(void)endwin();
	delscreen(screen);
	screen = NULL;
}

void screen_size(int *ret_columns, int *ret_lines)
{
	getmaxyx(stdscr, *ret_lines, *ret_columns);
}

void screen_resized(void)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
		(void)resizeterm(size.ws_row, size.ws_col);
}

void screen_redraw(void)
{
	(void)endwin();
	(void)clearok(curscr, TRUE);
	(void)refresh();
	screen_resized();
}

/* ncurses would do all of this inside a signal handler. */
void screen_suspend(void)
{
	sigset_t stop;
	(void)endwin();
	(void)sigemptyset(&stop);
	(void)sigaddset(&stop, SIGTSTP);
	(void)signal(SIGTSTP, SIG_DFL);
	(void)raise(SIGTSTP);
	/* The process stops here until it is continued. */
	(void)sigprocmask(SIG_UNBLOCK, &stop, NULL);
	(void)sigprocmask(SIG_BLOCK, &stop, NULL);
	screen_redraw();
}

/* Without colors, alarming text is bold. */
static attr_t screen_attr(unsigned attr)
{
	attr_t result = A_NORMAL;
	bool colors = has_colors() && COLOR_PAIRS > SCREEN_BAD && PAIR_NUMBER(COLOR_PAIR(1));
	if (attr & PAPER_BOLD)
		result |= A_BOLD;
	if (attr & PAPER_DIM)
		result |= A_DIM;
	if (attr & PAPER_REVERSE)
		result |= A_REVERSE;
	if (colors && (attr & PAPER_GOOD))
		result |= COLOR_PAIR(SCREEN_GOOD);
	if (attr & PAPER_WARN)
		result |= colors ? COLOR_PAIR(SCREEN_WARN) : A_BOLD;
	if (attr & PAPER_BAD)
		result |= colors ? COLOR_PAIR(SCREEN_BAD) | A_BOLD : A_BOLD;
	return result;
}

void screen_draw(const struct paper *paper)
{
	(void)erase();
	for (int r = 0; r < paper->rows; r++)
		for (int c = 0; c < paper->width; c++) {
			const struct paper_cell *cell = paper_at(paper, r, c);
			if (!cell->text[0])
				continue;
			(void)attrset(screen_attr(cell->attr));
			(void)mvaddstr(r, c, cell->text);
		}
	(void)attrset(A_NORMAL);
	(void)refresh();
}

int screen_key(void)
{
	enum { SCREEN_ESC = 27 };
	int key = getch();
	switch (key) {
	case KEY_UP:
		return TOP_KEY_UP;
	case KEY_DOWN:
		return TOP_KEY_DOWN;
	case KEY_PPAGE:
		return TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return TOP_KEY_PAGE_DOWN;
	case KEY_HOME:
		return TOP_KEY_HOME;
	case KEY_END:
		return TOP_KEY_END;
	case KEY_ENTER:
	case '\r':
	case '\n':
		return TOP_KEY_ENTER;
	case SCREEN_ESC:
	case KEY_BACKSPACE:
		return TOP_KEY_BACK;
	case ERR:
		return 0;
	default:
		/* Other keys, a resize among them, only mean that something came. */
		return key > 0 && key < 256 ? key : -1;
	}
}
