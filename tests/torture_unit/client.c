/* Scenarios of libpenstock on the fake daemon, which is a process of its own: nothing fails there.
 */
#include "client/reconnect.h"
#include "torture_unit/torture.h"

#include "client/lib/private.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCHES = 6 };

static const struct fake_shape shape = {
	.batch_size = 4, .side = 8, .slots = 4, .batches = 3, .epochs = 2, .first_serial = 1};

/* What the library says, whatever it was asked for. */
static void refused(int code)
{
	torture_refused(code, penstock_error());
}

static bool good(const struct penstock_batch *batch, uint64_t ordinal)
{
	const uint8_t *images = batch->images;
	return batch->epoch == ordinal / 3 && batch->batch == ordinal % 3 &&
	       images[batch->image_bytes] == fake_pixel(ordinal, 1) &&
	       batch->labels[1] == fake_label(ordinal, 1);
}

static int ask_all(struct penstock_stream *stream)
{
	char *text[2] = {NULL};
	int code = penstock_stream_classes(stream, &text[0]);
	if (code >= 0)
		code = penstock_stream_path(stream, 1, &text[1]);
	for (int i = 0; i < 2; i++)
		free(text[i]);
	return code;
}

/* Takes batches from `from` on, in order, each once, until the end or an error that is not waited
 * out. */
static int take(struct penstock_stream *stream, uint64_t from, uint64_t until)
{
	struct penstock_batch batch;
	char state[512];
	int code = 0;
	for (uint64_t n = from; n < until; n++) {
		code = penstock_stream_next(stream, &batch, 5000);
		if (code != 0)
			break;
		if (!good(&batch, n))
			torture_wrong("batch %llu is another", (unsigned long long)n);
		if (penstock_stream_state(stream, state, sizeof state) < 0)
			torture_wrong("no state");
		code = penstock_batch_release(stream, &batch);
		if (code < 0)
			break;
	}
	return code;
}

static void want_end(struct penstock_stream *stream)
{
	struct penstock_batch batch;
	int code = penstock_stream_next(stream, &batch, 5000);
	if (code < 0)
		refused(code);
	else
		TORTURE_WANT(code == PENSTOCK_END);
}

static void run_stream(void)
{
	struct fake fake;
	struct penstock_stream *stream = NULL;
	fake_start(&fake, fake_serve_well, &shape);
	struct penstock_options options = fake_options(&fake);
	options.epochs = 2;
	torture_on();
	int code = penstock_stream_open(&options, &stream);
	if (code == 0)
		code = take(stream, 0, BATCHES);
	if (code < 0)
		refused(code);
	else
		want_end(stream);
	torture_on();
	penstock_stream_close(stream);
	torture_off();
	(void)fake_stop(&fake);
}

static void run_ask(void)
{
	struct fake fake;
	struct penstock_stream *stream = NULL;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_options options = fake_options(&fake);
	torture_on();
	int code = penstock_stream_open(&options, &stream);
	if (code == 0)
		code = ask_all(stream);
	if (code == 0)
		code = take(stream, 0, 3);
	if (code < 0)
		refused(code);
	penstock_stream_close(stream);
	torture_off();
	(void)fake_stop(&fake);
}

static void run_status(void)
{
	struct fake fake;
	char *json = NULL, socket[108];
	fake_start(&fake, fake_serve_well, &endless);
	torture_on();
	int code = penstock_daemon_status(fake.socket, &json);
	if (code == 0)
		code = penstock_daemon_socket(fake.socket, socket, sizeof socket);
	if (code == 0)
		code = penstock_daemon_stop(fake.socket);
	torture_off();
	if (code < 0)
		refused(code);
	else
		TORTURE_WANT(json && strcmp(socket, fake.socket) == 0);
	free(json);
	(void)fake_stop(&fake);
}

/* Daemons that go after a few batches each; the last one stays. */
static const struct script lives = {.name = "torture",
	.life = {{.end = AT_BATCH, .batches = 2}, {.end = SHUTS_DOWN, .batches = 1},
		{.end = STAYS}},
	.lives = 3};

static void run_reconnect(void)
{
	struct fake fake;
	struct penstock_stream *stream = NULL;
	fake_start(&fake, serve_script, &lives);
	struct penstock_options options = fake_options(&fake);
	options.reconnect_ms = 4000;
	torture_on();
	int code = penstock_stream_open(&options, &stream);
	if (code == 0)
		code = take(stream, 0, 5);
	if (code < 0)
		refused(code);
	penstock_stream_close(stream);
	torture_off();
	(void)fake_stop(&fake);
}

/* In a child of the application: it says so, and closing is all that is left. */
static void run_fork(void)
{
	struct fake fake;
	struct penstock_stream *stream = NULL;
	struct penstock_batch batch;
	int status = 0;
	fake_start(&fake, fake_serve_well, &endless);
	struct penstock_options options = fake_options(&fake);
	if (penstock_stream_open(&options, &stream) < 0)
		torture_wrong("open: %s", penstock_error());
	pid_t pid = fork();
	if (pid == 0) {
		torture_on();
		int code = penstock_stream_next(stream, &batch, 1000);
		bool right = code == -EBADF && penstock_error()[0];
		penstock_stream_close(stream);
		_exit(!right);
	}
	(void)waitpid(pid, &status, 0);
	TORTURE_WANT(status == 0);
	torture_on();
	int code = take(stream, 0, 4);
	if (code < 0)
		refused(code);
	penstock_stream_close(stream);
	torture_off();
	(void)fake_stop(&fake);
}

/* ---- a private daemon ---- */

static void end_private(void)
{
	char line[256];
	FILE *file = fopen(torture_own("run/p.sock.facts"), "re");
	while (file && fgets(line, sizeof line, file)) {
		int pid = 0;
		if (sscanf(line, "pid=%d", &pid) == 1 && pid > 1)
			(void)kill(pid, SIGKILL);
	}
	if (file)
		(void)fclose(file);
}

static void run_private(void)
{
	struct penstock_stream *stream = NULL;
	struct penstock_options options;
	(void)setenv("PENSTOCKD", FAKE_PENSTOCKD, 1);
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = torture_own("run/p.sock");
	options.daemon_threads = 3;
	torture_on();
	int code = penstock_stream_open(&options, &stream);
	if (code == 0)
		code = take(stream, 0, 2);
	if (code < 0)
		refused(code);
	penstock_stream_close(stream);
	torture_off();
	end_private();
}

static void run_job(void)
{
	struct penstock_stream *stream = NULL;
	struct penstock_options options;
	(void)setenv("PENSTOCKD", "/nonexistent/penstockd", 1);
	(void)setenv("PENSTOCK_JOB", "torture", 1);
	(void)setenv("XDG_RUNTIME_DIR", torture_room, 1);
	(void)setenv("TMPDIR", torture_room, 1);
	penstock_options_init(&options);
	options.source = "/data";
	options.share = "split";
	options.rank = 1;
	options.world_size = 2;
	torture_on();
	int code = penstock_stream_open(&options, &stream);
	torture_off();
	/* There is no such program: always an error, always in words. */
	TORTURE_WANT(code < 0 && penstock_error()[0] && !stream);
	if (code != -ENOENT)
		refused(code);
}

/* ---- tensors ---- */

static void run_tensors(void)
{
	struct penstock_convert_options options;
	struct penstock_convert *convert = NULL;
	struct penstock_mix_options mixing;
	struct penstock_mix *mix = NULL;
	static uint8_t rows[4 * 8 * 8 * 3];
	static float out[4 * 8 * 8 * 3];
	penstock_convert_options_init(&options);
	penstock_mix_options_init(&mixing);
	mixing.mixup = 0.2;
	mixing.cutmix = 1;
	mixing.erase = 0.25;
	mixing.classes = 10;
	torture_on();
	int code = penstock_convert_new(&options, &convert);
	if (code < 0)
		refused(code);
	else
		penstock_convert_rows(convert, rows, 4, 8, 8, out);
	code = penstock_mix_new(&mixing, &mix);
	if (code < 0) {
		refused(code);
	} else {
		struct penstock_stream_info info = {
			.batch_size = 4, .height = 8, .width = 8, .views = 1, .seed = 3};
		struct penstock_sample samples[4] = {
			{.index = 1}, {.index = 2}, {.index = 3}, {.index = 4}};
		int64_t labels[4] = {1, 2, 3, 4};
		float targets[40];
		struct penstock_batch batch = {
			.count = 4, .height = 8, .width = 8, .samples = samples, .labels = labels};
		struct penstock_mix_row plan[4];
		struct penstock_mix_images images = {out, PENSTOCK_FLOAT32, PENSTOCK_NHWC, 8, 8};
		penstock_mix_plan(mix, &info, &batch, plan);
		code = penstock_mix_targets(mix, plan, 4, 1, labels, targets);
		if (code == 0)
			code = penstock_mix_apply(mix, plan, 4, &images);
		if (code < 0)
			refused(code);
	}
	penstock_mix_free(mix);
	penstock_convert_free(convert);
	torture_off();
}

static const struct torture_scenario torture_client[] = {
	{"client.stream", NULL, run_stream},
	{"client.ask", NULL, run_ask},
	{"client.status", NULL, run_status},
	{"client.reconnect", NULL, run_reconnect},
	{"client.fork", NULL, run_fork},
	{"client.private", NULL, run_private},
	{"client.job", NULL, run_job},
	{"client.tensors", NULL, run_tensors},
	{0},
};

const struct torture_scenario *const torture_lists[] = {torture_client, NULL};
