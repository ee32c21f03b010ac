/* hash_name: see hash_name.h. */
#include "base/hash_name.h"

#include "base/hash.h"

#include <sys/random.h>
#include <time.h>

static uint64_t secret;

/* Before main, and so before any thread. A kernel that has no random numbers yet has just begun:
 * then the clock has to do. */
__attribute__((constructor)) static void secret_draw(void)
{
	struct timespec now;
	if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) == (ssize_t)sizeof secret)
		return;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	secret = hash_u64(hash_u64(HASH_SEED, (uint64_t)now.tv_sec), (uint64_t)now.tv_nsec);
}

uint64_t hash_name(const void *name, size_t size)
{
	return hash_mix(hash_bytes(secret, name, size));
}
