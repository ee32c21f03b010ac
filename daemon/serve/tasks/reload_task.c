/* reload: the configuration is read again (SIGHUP).
 *
 * A thread reads it, since its storage may hang, and the event loop takes over what may change
 * while streams run. A signal that comes meanwhile is another one behind it. */
#include "serve/serve_impl.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *reload_main(void *argument)
{
	struct server *server = argument;
	struct reload *reload = &server->reload;
	(void)pthread_setname_np(pthread_self(), "penstock-config");
	reload->result = config_load(server->config->file, reload->fresh, &reload->fault);
	atomic_store_explicit(&reload->done, true, memory_order_release);
	server->environment.wake(server->environment.wake_context);
	return NULL;
}

static void reload_begin(struct server *server)
{
	struct reload *reload = &server->reload;
	reload->again = false;
	reload->fresh = malloc(sizeof *reload->fresh);
	int result = reload->fresh ? 0 : ENOMEM;
	if (!result) {
		config_init(reload->fresh);
		atomic_store_explicit(
			&reload->done, false, memory_order_relaxed); /* before the thread is */
		result = open_task_thread(&reload->thread, reload_main, server);
	}
	reload->running = result == 0;
	if (reload->running) {
		supervisor_reloading();
		return;
	}
	log_warning("SIGHUP: the configuration cannot be read again: %s", strerror(result));
	free(reload->fresh);
}

void reload_ask(struct server *server)
{
	if (!server->config->file[0])
		log_warning("SIGHUP: there is no configuration file to read again");
	else if (server->reload.running)
		server->reload.again = true;
	else
		reload_begin(server);
}

static void reload_take(struct server *server, const struct config *fresh)
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
		 "open_streams and %u streams are in force; other keys need a restart",
		now->file, now->stream_count);
}

static void reload_join(struct reload *reload)
{
	pthread_join(reload->thread, NULL);
	reload->running = false;
}

void reload_collect(struct server *server)
{
	struct reload *reload = &server->reload;
	if (!reload->running || !atomic_load_explicit(&reload->done, memory_order_acquire))
		return;
	reload_join(reload);
	if (reload->result) {
		server_notice(server, reload->fault.text);
		log_warning("SIGHUP: the old configuration stays in force");
	} else {
		reload_take(server, reload->fresh);
	}
	free(reload->fresh);
	supervisor_reloaded();
	if (reload->again)
		reload_begin(server);
}

void reload_end(struct server *server)
{
	if (!server->reload.running)
		return;
	reload_join(&server->reload);
	free(server->reload.fresh);
}
