/* answer: WIRE_ANSWER, with a text of any length. */
#include "serve/session/session.h"

#include "serve/session/handouts.h"
#include "serve/state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ANSWER_INLINE_MAX = 32768 };

static int answer_fill(int fd, const char *text, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, text + done, size - done);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

static int answer_handout(const char *text, size_t size, struct handout *ret, struct fault *fault)
{
	int fd = memfd_create("penstock-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int result = fd < 0 ? -errno : answer_fill(fd, text, size);
	if (result) {
		if (fd >= 0)
			(void)close(fd);
		return fault_set(fault, result, "no memory for the answer: %s", strerror(-result));
	}
	*ret = handout_make(fd, false);
	return 0;
}

/* A text too long for one message is sent as a sealed memfd, which counts toward memory until the
 * client has let go of it. */
static int answer_send_long(
	struct client *client, struct wire_answer *answer, const char *text, struct fault *fault)
{
	struct server *server = client->server;
	struct handout handout;
	int line;
	handouts_sweep(server);
	int result = peer_may(&server->peers, &client->name, PEER_ANSWERS, fault);
	if (!result)
		result = ledger_reserve(
			&server->ledger, answer->total_bytes, "a long answer", &line, fault);
	if (result)
		return result;
	result = answer_handout(text, answer->total_bytes, &handout, fault);
	if (result) {
		ledger_release(&server->ledger, line);
		return result;
	}
	client_send(client, &answer->head, sizeof *answer, NULL, 0, handout.give);
	handout_end(&handout);
	handouts_keep(server, peer_charge(&server->peers, &client->name, PEER_ANSWERS),
		PEER_ANSWERS, handout, line, answer->total_bytes);
	return 0;
}

void answer_send(struct client *client, const struct wire_head *head, const char *text)
{
	struct wire_answer answer = {
		.head = {.type = WIRE_ANSWER, .request = head->request, .stream = head->stream}};
	struct fault fault;
	if (!text) {
		client_error(
			client, head->request, head->stream, -ENOMEM, "no memory for the answer");
		return;
	}
	answer.total_bytes = strlen(text);
	if (answer.total_bytes <= ANSWER_INLINE_MAX) {
		answer.text_bytes = (uint32_t)answer.total_bytes;
		client_send(client, &answer.head, sizeof answer, text, answer.text_bytes, -1);
		return;
	}
	int result = answer_send_long(client, &answer, text, &fault);
	if (result)
		client_error(client, head->request, head->stream, result, fault.text);
}
