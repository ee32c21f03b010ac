/* chain_request: what the parts of the chain share. See chain.h. */
#include "remote/auth/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *chain_variable(const char *name)
{
	const char *value = getenv(name);
	return value && value[0] ? value : NULL;
}

struct chain_request *chain_request_new(struct fault *fault)
{
	struct chain_request *request = calloc(1, sizeof *request);
	if (!request)
		(void)fault_set(fault, -ENOMEM, "no memory for a request for credentials");
	return request;
}

void chain_request_free(struct chain_request *request)
{
	if (request)
		explicit_bzero(request, sizeof *request);
	free(request);
}
