/* reload_task: reads the configuration again (SIGHUP). The event loop then takes over the keys that
 * may change while streams run. A signal that comes meanwhile starts another reload afterwards. */
#include "serve/tasks/tasks.h"

#include "base/log.h"
#include "serve/server.h"
#include "serve/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void reload_task_run(void *argument)
{
	struct server *server = argument;
	struct reload_task *reload = &server->tasks.reload;
	reload->result = config_load(server->config->file, reload->fresh, &reload->fault);
}

static void reload_task_start(struct server *server)
{
	struct reload_task *reload = &server->tasks.reload;
	int result = -ENOMEM;
	reload->again = false;
	reload->fresh = malloc(sizeof *reload->fresh);
	if (reload->fresh) {
		config_init(reload->fresh);
		result = loop_start_task(
			&server->loop, &reload->task, "penstock-config", reload_task_run, server);
	}
	if (!result) {
		supervisor_reloading();
		return;
	}
	log_warning("SIGHUP: the configuration cannot be read again: %s", strerror(-result));
	free(reload->fresh);
}

void reload_task_ask(struct server *server)
{
	if (!server->config->file[0])
		log_warning("SIGHUP: this penstockd was started without a configuration file, so "
			    "there is nothing to read again");
	else if (server->tasks.reload.task.running)
		server->tasks.reload.again = true;
	else
		reload_task_start(server);
}

static void reload_task_take(struct server *server, const struct config *fresh)
{
	struct config *now = server->config;
	if (!now->log_levels_given)
		now->log_levels = fresh->log_levels;
	if (!now->idle_exit_given)
		now->idle_exit_s = fresh->idle_exit_s;
	now->max_clients = fresh->max_clients;
	now->max_streams = fresh->max_streams;
	peer_book_set(&server->peers, now->max_clients, now->max_streams);
	now->open_streams = fresh->open_streams;
	now->stream_count = fresh->stream_count;
	memcpy(now->stream, fresh->stream, sizeof now->stream);
	log_set_levels(&now->log_levels);
	if (fresh->renamed.text[0])
		log_warning("%s", fresh->renamed.text);
	log_info("SIGHUP: read %s again: log_level, idle_exit, max_clients, max_streams, "
		 "open_streams and %u stream%s are in force; other keys need a restart",
		now->file, now->stream_count, now->stream_count == 1 ? "" : "s");
	server_note_streams(now);
}

void reload_task_collect(struct server *server)
{
	struct reload_task *reload = &server->tasks.reload;
	if (!task_collect(&reload->task))
		return;
	if (reload->result) {
		recorder_notice(server, reload->fault.text);
		log_warning("SIGHUP: the old configuration stays in force");
	} else {
		reload_task_take(server, reload->fresh);
	}
	free(reload->fresh);
	supervisor_reloaded();
	if (reload->again)
		reload_task_start(server);
}

void reload_task_end(struct server *server)
{
	struct reload_task *reload = &server->tasks.reload;
	if (!reload->task.running)
		return;
	task_join(&reload->task);
	free(reload->fresh);
}
