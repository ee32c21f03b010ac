/* client_names: names of the client's enums, for metrics and messages. Pure. */
#include "remote/client/client.h"

const char *client_retry_name(enum client_retry reason)
{
	static const char *const names[CLIENT_RETRIES] = {
		[CLIENT_RETRY_CONNECT] = "connect",
		[CLIENT_RETRY_RESET] = "reset",
		[CLIENT_RETRY_STALL] = "stall",
		[CLIENT_RETRY_STATUS] = "status",
		[CLIENT_RETRY_SLOWDOWN] = "slowdown",
		[CLIENT_RETRY_ANSWER] = "answer",
		[CLIENT_RETRY_REFUSED] = "refused",
		[CLIENT_RETRY_TLS] = "tls",
	};
	return names[reason];
}
