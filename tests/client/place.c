/* place: see place.h. */
#include "client/place.h"

#include "client/fake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place place;

void place_make(void)
{
	(void)snprintf(place.folder, sizeof place.folder, "/tmp/penstock-place-XXXXXX");
	FAKE_WANT(mkdtemp(place.folder));
	(void)snprintf(place.run, sizeof place.run, "%s/run", place.folder);
	(void)snprintf(place.socket, sizeof place.socket, "%s/p.sock", place.run);
	(void)snprintf(place.facts, sizeof place.facts, "%s.facts", place.socket);
	(void)snprintf(place.log, sizeof place.log, "%s/penstockd.log", place.run);
	(void)snprintf(place.spawn_lock, sizeof place.spawn_lock, "%s/spawn.lock", place.run);
	(void)setenv("PENSTOCKD", FAKE_PENSTOCKD, 1);
}

void place_read(char text[PLACE_FACTS])
{
	FILE *file = fopen(place.facts, "re");
	FAKE_WANT(file);
	text[fread(text, 1, PLACE_FACTS - 1, file)] = '\0';
	(void)fclose(file);
}

/* The lines of the facts, each with the pid that it begins with. */
static unsigned place_each(void (*visit)(pid_t pid, void *data), void *data)
{
	char text[PLACE_FACTS], *at = NULL;
	unsigned n = 0;
	place_read(text);
	for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at), n++) {
		FAKE_WANT(strncmp(line, "pid=", 4) == 0);
		visit((pid_t)strtol(line + 4, NULL, 10), data);
	}
	return n;
}

static void place_note(pid_t pid, void *data)
{
	*(pid_t *)data = pid;
}

static void place_end(pid_t pid, void *data)
{
	(void)data;
	FAKE_WANT(pid > 1);
	(void)kill(pid, SIGKILL);
}

unsigned place_starts(pid_t *ret_last)
{
	return place_each(place_note, ret_last);
}

void place_kill(struct penstock_stream *const stream[], int streams)
{
	pid_t last = 0;
	(void)place_starts(&last);
	FAKE_WANT(last > 1 && kill(last, SIGKILL) == 0);
	for (int i = 0; i < streams; i++)
		FAKE_WANT(kill(penstock_stream_daemon_pid(stream[i]), SIGKILL) == 0);
}

void place_remove(void)
{
	char command[128];
	if (access(place.facts, R_OK) == 0)
		(void)place_each(place_end, NULL);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)snprintf(command, sizeof command, "rm -rf %s", place.folder);
	FAKE_WANT(system(command) == 0);
}

struct penstock_options place_options(void)
{
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = place.socket;
	return options;
}
