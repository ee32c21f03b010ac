/* main: the command `penstock`. Finds the subcommand, and checks at the end that its output was
 * written. */
#include "client/cli/cli.h"

#include "base/host/limits.h"
#include "base/nearest.h"
#include "base/util.h"
#include "client/cli/completion.h"
#include "client/cli/options.h"
#include "dataset/container/container.h"
#include "decode/decode.h"
#include "remote/client/client.h"
#include "unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int completion_main(int argc, char **argv);

static const struct cli_command subcommands[] = {
	{"bench", bench_main, "measure how fast a dataset reaches a trainer"},
	{"cache", cache_main, "show, verify or clear what is kept of remote data"},
	{"check", check_main, "decode every image; list the broken ones"},
	{"completion", completion_main, "complete commands and options in a shell"},
	{"decode", decode_main, "decode single images; write them as PNG or PPM"},
	{"pack", pack_main, "rewrite a dataset into tar files that decode faster"},
	{"plan", plan_main, "show what every rank of a job will get"},
	{"replay", replay_main, "make the rows of a batch again, without a daemon"},
	{"show", show_main, "draw a batch as a PNG contact sheet"},
	{"state", state_main, "explain a saved state; check whether a stream can resume"},
	{"status", status_main, "show what the running daemon is doing"},
	{"stop", stop_main, "end the running daemon"},
	{"top", top_main, "show what the running daemon is doing, live"},
	{"why", why_main, "report how trainers and the daemon ended, and why"},
};

static int completion_main(int argc, char **argv)
{
	return completion_run(argc, argv, subcommands, UTIL_COUNT(subcommands));
}

static void main_usage(FILE *out)
{
	(void)fprintf(out, "Usage: penstock COMMAND [options]\n\n");
	for (size_t i = 0; i < UTIL_COUNT(subcommands); i++)
		(void)fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
	(void)fprintf(out,
		"\n  --help     print this text; `penstock help COMMAND`, or `penstock COMMAND\n"
		"             --help`, for one command\n"
		"  --version  print the release\n\n"
		"A SOURCE is a folder of class folders, a flat folder, or a file, quoted glob "
		"or\nbrace range of files: WebDataset tars (\"train-{0000..0146}.tar\"), "
		"Parquet,\nTFRecord, MDS, LitData, ZIP, LMDB, RecordIO, CIFAR or MNIST. Options "
		"may follow\nit; defaults are in parentheses.\nExit status: 0 done; 1 failed, or "
		"broken images found; 2 usage or "
		"configuration.\n");
}

static int main_unknown(const char *name)
{
	struct nearest nearest = nearest_to(name);
	const char *best;
	for (size_t i = 0; i < UTIL_COUNT(subcommands); i++)
		nearest_try(&nearest, subcommands[i].name);
	if ((best = nearest_found(&nearest)))
		return cli_fail(
			CLI_USAGE, "there is no command \"%s\"; did you mean \"%s\"?", name, best);
	return cli_fail(
		CLI_USAGE, "there is no command \"%s\"; `penstock --help` lists them", name);
}

static int main_run(int argc, char **argv)
{
	if (argc < 2) {
		main_usage(stderr);
		return CLI_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		char datasets[CONTAINER_NAMES], unpacks[UNPACK_TEXT], urls[CLIENT_DESCRIPTION];
		(void)printf("penstock %s\nimages: %s\ndatasets: %s\nunpacks: %s\nurls: %s\n",
			PENSTOCK_VERSION, decode_formats(), container_names(datasets),
			unpack_describe(unpacks), client_describe(urls));
		return CLI_OK;
	}
	bool help =
		strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
	if (help && argc == 2) {
		main_usage(stdout);
		return CLI_OK;
	}
	/* `penstock help bench` is `penstock bench --help`. */
	char help_option[] = "--help";
	char *help_args[] = {argv[0], help_option, NULL};
	if (help)
		name = argv[2];
	for (size_t i = 0; i < UTIL_COUNT(subcommands); i++)
		if (strcmp(name, subcommands[i].name) == 0)
			return help ? subcommands[i].main(2, help_args)
				    : subcommands[i].main(argc - 1, argv + 1);
	return main_unknown(name);
}

/* A reader that went away (`| head`) is not worth a message, but it did not get all of the output,
 * so the command fails. */
static int main_flush(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	if (errno == EPIPE)
		return code ? code : CLI_FAILED;
	return cli_fail(CLI_FAILED, "cannot write the output: %s", strerror(errno));
}

/* A standard stream that nobody gave would be the next file that is opened, and what is printed
 * would end up in there. Reading and writing these fail, as they should. */
static void main_fill_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/", O_PATH | O_DIRECTORY);
	}
}

int main(int argc, char **argv)
{
	main_fill_streams();
	cli_begin();
	(void)setlocale(LC_CTYPE, "");
	/* Written to a closed pipe, stdout must fail instead of killing us: a daemon of our own has
	 * to be ended first. */
	(void)signal(SIGPIPE, SIG_IGN);
	/* A limit on the size of files is an error to be told, not a reason to die. */
	(void)signal(SIGXFSZ, SIG_IGN);
	struct fault fault;
	if (limits_kernel(&fault) < 0 || limits_stack(&fault) < 0)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	return main_flush(main_run(argc, argv));
}
