/* cli: what all subcommands of `penstock` share: exit codes, messages, results, the time of the
 * start.
 *
 * A map of this folder:
 *   main.c         finds the subcommand; help, version, the last flush of stdout
 *   cli.[ch]       this
 *   options.[ch]   one parser and one help text for all subcommands; each has a table of options
 *   completion.[ch]  prints a script for a shell, made of these tables
 *   recipe.[ch]    the options of a stream and of a daemon, which several subcommands share
 *   catalog.[ch]   opens a dataset in this process, with a progress bar while it builds the index
 *   spawn.[ch]     starts a daemon of the command's own in a temporary folder, and ends it
 *   find.[ch]      finds the running daemon
 *   answer.[ch]    asks it what it is doing
 *   document.[ch]  reads the daemon's JSON
 *   process.[ch]   what /proc says about a process: memory, CPU time, bytes read
 *   output.[ch]    writes a file whole or not at all
 *   progress.[ch]  a line on the terminal while something takes longer than a second
 *   table.[ch]     numbers in words, columns, wrapped sentences
 *   bar.[ch]       shares drawn with character cells
 *   bench/         the subcommand bench
 *   draw/          plots, contact sheets and image files
 *   inspect/       the subcommands cache, check, decode, plan, replay, show, state
 *   pack/          the subcommand pack
 *   watch/         the subcommands status, stop, top; watch/why/ has why
 *
 * The command has one thread, except for the decoders of check and of the yardstick, the signal
 * thread of spawn and the thread of watch/feed. Results go to stdout. Everything else goes to
 * stderr as `penstock: sentence`. */
#pragma once

#include <stdint.h>

struct jsontext;

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1, /* something failed, or broken images were found */
	CLI_USAGE = 2, /* the command line, or something that it names, must be changed */
};

/* Prints `penstock: sentence` on stderr and returns `code`. */
int cli_fail(enum cli_exit code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the JSON, which is a subcommand's result, as a line on stdout, and frees it. CLI_OK, or
 * CLI_FAILED after saying that memory ran out. */
int cli_print_json(struct jsontext *json);

/* Prints `penstock: sentence` on stderr. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the last lines of a file on stderr, indented: the output of a program that failed. */
void cli_show_tail(int fd, int lines);

/* Replaces control characters by `?`, in place, so that a name in a dataset cannot forge a line or
 * control the terminal. Returns `text`. */
char *cli_tame(char *text);

/* The exit code for a negative errno from opening something: 2 if the user named the wrong thing, 1
 * if opening it failed. */
enum cli_exit cli_exit_code(int error);

/* Notes when this process began. main calls it first. */
void cli_begin(void);

/* When this process began, on CLOCK_MONOTONIC. The kernel knows only when the process was created,
 * rounded down to a hundredth of a second, so this is at most that much too early, and never too
 * late. */
uint64_t cli_started_ns(void);

int bench_main(int argc, char **argv);
int cache_main(int argc, char **argv);
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
