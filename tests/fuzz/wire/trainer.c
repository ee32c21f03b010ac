/* trainer: see trainer.h. */
#include "trainer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static void trainer_send(struct model *m, const void *message, size_t size, int definition)
{
	model_sent(m, message, size, 0, definition);
	if (send(m->fd, message, size, MSG_NOSIGNAL) != (ssize_t)size)
		world_wrong("a message cannot be sent: %s", strerror(errno));
}

void trainer_say(struct model *trainer, const void *message, size_t size)
{
	trainer_send(trainer, message, size, -1);
}

void trainer_open(struct model *trainer, struct world *world, int definition)
{
	struct {
		struct wire_open open;
		char text[1024];
	} letter;
	struct wire_hello hello = {.head = {WIRE_HELLO, sizeof hello, 1, 0},
		.magic = WIRE_MAGIC,
		.version_min = 1,
		.version_max = 1};
	model_begin(trainer, world);
	trainer->fd = world_connect(world);
	trainer->reads = true;
	trainer_say(trainer, &hello, sizeof hello);
	size_t size = world_text(
		world, model_definitions[definition].text, letter.text, sizeof letter.text);
	letter.open =
		(struct wire_open){.head = {WIRE_OPEN, (uint32_t)(sizeof letter.open + size), 2, 1},
			.text_bytes = (uint32_t)size};
	trainer_send(trainer, &letter, sizeof letter.open + size, definition);
}

void trainer_release(struct model *trainer)
{
	const struct model_stream *s = model_stream(trainer, 1);
	for (uint32_t slot = 0; slot < s->slots; slot++) {
		struct wire_release release = {.head = {WIRE_RELEASE, sizeof release, 0, 1},
			.extent = s->extent,
			.slot = slot,
			.serial = s->slot[slot].serial};
		if (s->slot[slot].held)
			trainer_say(trainer, &release, sizeof release);
	}
}

void trainer_read(struct model *trainer, uint64_t batches)
{
	const struct model_stream *s = model_stream(trainer, 1);
	while (s->count < batches) {
		world_turn(trainer->world, 20);
		model_read(trainer);
	}
}
