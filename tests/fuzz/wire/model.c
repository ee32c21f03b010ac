/* model: see model.h.
 *
 * A map of this folder:
 *
 *   model.[ch]         the messages that a daemon is allowed on one connection
 *   model_impl.h       what its parts have from each other
 *   model_sent.c       what a client's datagrams oblige the daemon to
 *   model_got.c        the daemon's messages, against that
 *   model_memory.c     what is in the slots
 *   world.[ch]         the daemon in this process, its clients and its files
 *   trainer.[ch]       a well-behaved trainer
 *   test_given_up.c    leases that are taken back
 *   test_storage.c     storage that fails
 */
#include "model_impl.h"

#include "base/util.h"

#include <errno.h>
#include <unistd.h>

/* Unread answers must fit in the socket: six of the longest do not fit. */
enum { REQUESTS_MOST = 5 };

struct model_figures model_figures;
bool model_odd, model_stopped, model_learns;
unsigned model_openings;

#define PLAIN "\"source\":\"@/data\",\"batch_size\":2,\"image_size\":8"
const struct model_definition model_definitions[] = {
	{"{" PLAIN ",\"train\":false,\"epochs\":2}", MODEL_ALONE, true},
	{"{" PLAIN ",\"seed\":3,\"epochs\":3,\"prefetch\":2}", MODEL_ALONE, true},
	{"{" PLAIN ",\"seed\":4}", MODEL_ALONE, true},
	{"{\"source\":\"@/data\",\"batch_size\":1,\"image_size\":12,\"dtype\":\"float16\","
	 "\"layout\":\"NCHW\",\"views\":2,\"epochs\":1}",
		MODEL_ALONE, true},
	{"{" PLAIN ",\"pin_memory\":true,\"epochs\":4,\"shuffle\":false}", MODEL_ALONE, true},
	{"{\"source\":\"@/data\",\"indices\":\"@/list.npy\",\"batch_size\":2,\"image_size\":8,"
	 "\"epochs\":3,\"drop_last\":false}",
		MODEL_ALONE, true},
	{"{" PLAIN ",\"weights\":\"@/weights.npy\",\"epochs\":2}", MODEL_ALONE, true},
	{"{" PLAIN ",\"weights\":\"balanced\",\"epochs\":2,\"repeats\":2}", MODEL_ALONE, true},
	{"{\"source\":\"@/data\",\"batch_size\":3,\"image_size\":{\"0\":8,\"1\":16},\"epochs\":2}",
		MODEL_ALONE, true},
	{"{" PLAIN ",\"group\":\"g\",\"train\":false,\"epochs\":4}", MODEL_SHARED, true},
	{"{" PLAIN ",\"group\":\"h\",\"seed\":9,\"wait_for\":2,\"laggard\":\"detach\","
	 "\"laggard_timeout_s\":1}",
		MODEL_SHARED, true},
	{"{" PLAIN ",\"group\":\"s\",\"share\":\"split\",\"rank\":0,\"world_size\":2,\"epochs\":2,"
	 "\"train\":false}",
		MODEL_SHARED, true},
	{"{" PLAIN ",\"group\":\"s\",\"share\":\"split\",\"rank\":1,\"world_size\":2,\"epochs\":2,"
	 "\"train\":false}",
		MODEL_SHARED, true},
	{"{\"stream\":\"named\",\"epochs\":3}", MODEL_SHARED, true},
	{"{\"source\":\"@/bad\",\"batch_size\":2,\"image_size\":8,\"on_broken\":\"mark\","
	 "\"max_broken\":1,\"epochs\":2}",
		MODEL_ALONE, true},
	{"{\"source\":\"@/bad\",\"batch_size\":2,\"image_size\":8,\"on_broken\":\"fail\"}",
		MODEL_FRAIL, true},
	{"{\"source\":\"@/bad\",\"batch_size\":2,\"image_size\":8,\"max_broken\":0.001}",
		MODEL_FRAIL, true},
	/* The watcher's values. */
	{"{" PLAIN ",\"seed\":11,\"epochs\":48,\"prefetch\":2}", MODEL_ALONE, true},
};
const unsigned model_definition_count = UTIL_COUNT(model_definitions);

void model_begin(struct model *model, struct world *world)
{
	*model = (struct model){.world = world, .fd = -1};
}

void model_let_go(struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		model_drop_held(&model->stream[i]);
}

void model_be_lax(struct model *model)
{
	model_figures.lax += !model->lax;
	model->lax = true;
	model_let_go(model);
}

struct model_stream *model_stream(struct model *model, uint32_t number)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].state != MODEL_NONE && model->stream[i].number == number)
			return &model->stream[i];
	return NULL;
}

unsigned model_streams(const struct model *model)
{
	unsigned n = 0;
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		n += model->stream[i].state != MODEL_NONE;
	return n;
}

/* The daemon has hung up. */
static void model_ended(struct model *model)
{
	bool flooded = model->unread > REQUESTS_MOST;
	if (!model->lax && !model->told && !model->half && !flooded && !model_stopped)
		world_wrong("the daemon hung up without an ERROR");
	if (flooded)
		model_be_lax(model);
	model_let_go(model);
	model->told = model->doomed = true;
}

static void model_close_streams(struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].state == MODEL_CLOSING)
			model_forget_stream(model, &model->stream[i]);
}

/* Everything that the daemon sent has been read. */
static void model_check_overwritten(const struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].overwritten && !model->lax)
			world_wrong("stream %u: a leased slot was filled again: no ERROR "
				    "(-ECANCELED) came, and no hang-up",
				model->stream[i].number);
}

void model_read(struct model *model)
{
	static struct conn_message message;
	int result;
	while ((result = conn_receive(model->fd, true, &message)) == CONN_OK) {
		model_got(model, &message);
		if (message.fd >= 0)
			(void)close(message.fd);
	}
	if (result == CONN_E_CLOSED)
		model_ended(model);
	else if (result != -EAGAIN)
		world_wrong("received bytes are not a message: %d", result);
	else
		model_check_overwritten(model);
	model_close_streams(model);
}

void model_settled(const struct model *model)
{
	const struct model_waiting *next = model->count ? &model->waiting[model->first] : NULL;
	if (model->lax || model->half || model_stopped)
		return;
	if (next)
		world_wrong("request %u, stream %u is not answered (%d)", next->request,
			next->stream, (int)next->what);
	if (model->doomed && !model->told)
		world_wrong("the connection should have ended");
}

void model_hang_up(struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].state != MODEL_NONE)
			model_forget_stream(model, &model->stream[i]);
	(void)close(model->fd);
	model_begin(model, model->world);
}
