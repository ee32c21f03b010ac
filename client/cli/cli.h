/* cli: what every subcommand of `penstock` shares: exit codes, the way a failure is said, the clock
 * of the start.
 *
 * A map of this folder:
 *   main.c        the table of subcommands, help, version, the last flush of stdout
 *   cli.c         this: failures, notes, results
 *   options.[ch]  one parser and one help text for every subcommand, out of one table each
 *   recipe.[ch]   the options that bench, replay and show have in common
 *   catalog.[ch]  opens a dataset in this process, with a progress bar while its index is built
 *   spawn.[ch]    a daemon of the command's own in a temporary folder, ended whatever happens
 *   document.[ch] reads the daemon's JSON
 *   process.[ch]  what /proc says about a process: memory, CPU time, bytes read
 *   trainer.[ch]  a forked process that takes batches, or works on them too, and times them
 *   watch.[ch]    looks at daemon and trainers from outside; series.[ch] is what it saw over time
 *   cold.[ch]     takes a dataset's files out of the page cache
 *   accelerate.[ch] how many accelerators can be fed, in MLPerf Storage's terms
 *   bench.c       the options of bench; measure.[ch] is one run of it, report.[ch] (and
 *                 report_json.c) prints it
 *   sweep.[ch]    several of them: grid.[ch] says which, sweep_points.[ch] is what was measured,
 *                 spread.[ch] has the medians, sweep_show.[ch] prints, sweep_plot.c draws,
 *                 page.[ch] is the page for people
 *   yardstick.[ch] libjpeg-turbo to compare with; compare.[ch] (and compare_torch.py) PyTorch's
 *                 DataLoader
 *   plot.[ch]     axes and lines, made of drawing.[ch], which is SVG (markup.[ch]) or pixels
 *   output.[ch]   files that are written whole or not at all
 *   check.c       decodes everything; machine.[ch] says what this machine offers
 *   decode.c      writes single images out; input.[ch] reads them, headline.[ch] knows their kind
 *   pack.c        rewrites a dataset; the work is done in daemon/pack
 *   plan.c        what every rank of a job will get
 *   replay.c      makes rows again without a daemon
 *   show.c        a batch as a picture; sheet.[ch] draws it with canvas.[ch] and font.[ch]
 *   picture.[ch]  pixels into a PNG or PPM file
 *   state.c       what a state says, and whether it fits; resume.[ch] reads and compares it
 *   status.c      status and stop; answer.[ch] asks the daemon
 *   top.c         status again and again, as text, or redrawn by top_terminal.c (where there is
 *                 ncurses; else top_absent.c): top_view.h has the map of what it shows; feed.[ch]
 *                 asks, paper.[ch] and columns.[ch] lay out, screen.[ch] draws on the terminal
 *   progress.[ch] one line on a terminal for what takes longer than a second
 *   why.[ch]      how trainers and the daemon ended, told by client/cli/watch/why/story, and (why_json.c)
 *                 for machines
 *   table.[ch]    numbers and columns for people; bar.[ch] shares
 *
 * The command is single-threaded but for check's and yardstick's decoders, spawn's signal thread
 * and feed's. Results go to stdout, everything else to stderr as `penstock: sentence`. */
#pragma once

#include <stdint.h>

struct jsontext;

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1, /* it did not work, or broken images were found */
	CLI_USAGE = 2, /* the command line or what it names has to be changed */
};

/* Says `penstock: sentence` on stderr and returns `code`, so that `return cli_fail(CLI_USAGE, ...)`
 * reads as one step. */
int cli_fail(enum cli_exit code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the document, which is a subcommand's result, as a line, and frees it. Returns CLI_OK, or
 * what cli_fail returned where memory was too little for it. */
int cli_print_json(struct jsontext *json);

/* The same as cli_fail without ending anything. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Control characters of a text for a terminal become `?`, in place: what a dataset's names hold
 * forges no line and steers no terminal. Returns `text`. */
char *cli_tame(char *text);

/* The exit code for a negative errno of opening something: what the user named is wrong (2), or it
 * failed (1). */
enum cli_exit cli_exit_code(int error);

/* Notes when this process began: main, first. */
void cli_begin(void);

/* When this process began, on CLOCK_MONOTONIC. The kernel keeps no time of exec, only that of the
 * process's creation, rounded down to a hundredth of a second: so this is at most that much too
 * early, never too late. */
uint64_t cli_started_ns(void);

int bench_main(int argc, char **argv);
int check_main(int argc, char **argv);
int decode_main(int argc, char **argv);
int pack_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int replay_main(int argc, char **argv);
int show_main(int argc, char **argv);
int state_main(int argc, char **argv);
int status_main(int argc, char **argv);
int stop_main(int argc, char **argv);
int why_main(int argc, char **argv);
int top_main(int argc, char **argv);
