/* answer: see answer.h. */
#include "client/cli/answer.h"

#include "base/util.h"
#include "client/cli/document.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int answer_ask(const char *socket, char **ret_text, struct node **ret_root, char *said)
{
	cleanup(free_ptr) char *text = NULL;
	int r = penstock_daemon_status(socket, &text);
	if (r < 0) {
		const char *why = penstock_error();
		(void)snprintf(said, ANSWER_SENTENCE, "%s", *why ? why : strerror(-r));
		return r;
	}
	struct node *root = document_parse(text);
	if (!root) {
		(void)snprintf(said, ANSWER_SENTENCE,
			"the daemon's answer is not JSON; is the daemon of another release?");
		return -EBADMSG;
	}
	if (ret_text) {
		*ret_text = text;
		text = NULL;
	}
	if (ret_root)
		*ret_root = root;
	else
		document_free(root);
	return 0;
}

const char *answer_name(const struct node *stream)
{
	const char *name = document_text(stream, "name", "");
	if (!*name)
		name = document_text(stream, "group", "");
	return *name ? name : "(private)";
}

const char *answer_differs(const struct node *stream)
{
	return document_text(stream, "differs", "");
}

bool answer_splits(const struct node *stream)
{
	return strcmp(document_text(stream, "share", ""), "split") == 0;
}

double answer_broken(const struct node *stream)
{
	const struct node *broken = document_get(stream, "broken");
	double total = 0;
	for (size_t i = 0; i < document_count(broken); i++) {
		const char *reason;
		total += document_value(document_at(broken, i, &reason));
	}
	return total;
}
