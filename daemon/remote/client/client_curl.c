/* client_curl: what all handles of libcurl have in common, and what they share. */
#include "remote/client/client_impl.h"

#include <errno.h>
#include <string.h>

enum {
	/* Of libcurl, for each transfer. A larger one saves a few calls, but malloc then maps and
	 * unmaps it for every request, and its bytes leave the cache before they are copied. */
	CURL_BUFFER = 64 << 10,
	CURL_DNS_S = 30,
	CURL_CONNECT_MS = 10000,
};

int client_curl_start(struct client *client)
{
	client->share = curl_share_init();
	if (!client->share)
		return -ENOMEM;
	/* All handles are the client's thread's: nothing needs a lock. */
	(void)curl_share_setopt(client->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
	(void)curl_share_setopt(client->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
	return 0;
}

void client_curl_stop(struct client *client)
{
	if (client->share)
		(void)curl_share_cleanup(client->share);
}

void client_curl_prepare(const struct client *client, CURL *easy)
{
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* removing does not wait for DNS */
	curl_easy_setopt(easy, CURLOPT_SHARE, client->share);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)CURL_BUFFER);
	curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)CONNECTION_IDLE_S);
	curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, (long)CURL_DNS_S);
	curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CURL_CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, CLIENT_AGENT);
	if (client->ca_file) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
		curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, client->ca_file);
	}
	if (client->ca_path) {
		curl_easy_setopt(easy, CURLOPT_CAPATH, client->ca_path);
		curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, client->ca_path);
	}
}
