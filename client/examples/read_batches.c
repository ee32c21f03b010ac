/* read_batches: the smallest consumer. Prints epoch, batch, rows and mean pixel of some batches.
 *
 *   read_batches SOURCE [BATCHES]
 *
 * SOURCE is as for `penstock bench`. The library starts a daemon if none is running. */
#include "penstock/penstock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double mean_pixel(const struct penstock_batch *batch)
{
	const unsigned char *pixel = batch->images;
	size_t count = batch->count * batch->image_bytes;
	unsigned long long sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += pixel[i];
	return count ? (double)sum / (double)count : 0;
}

int main(int argc, char **argv)
{
	struct penstock_options options;
	struct penstock_stream *stream;
	struct penstock_batch batch;
	char *end = NULL;
	int result = 0;

	bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
	errno = 0;
	unsigned long batches = argc > 2 ? strtoul(argv[2], &end, 10) : 20;
	if (help || argc < 2 || argc > 3 || (end && (*end || errno || end == argv[2]))) {
		(void)fprintf(help ? stdout : stderr, "usage: read_batches SOURCE [BATCHES]\n");
		return help ? 0 : 2;
	}
	penstock_options_init(&options);
	options.source = argv[1];
	if (penstock_stream_open(&options, &stream) < 0) {
		(void)fprintf(stderr, "read_batches: %s\n", penstock_error());
		return 1;
	}
	for (unsigned long i = 0; i < batches && result == 0; i++) {
		result = penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT);
		if (result == 0) {
			(void)printf("epoch %llu batch %llu rows %u mean %.2f%s\n",
				(unsigned long long)batch.epoch, (unsigned long long)batch.batch,
				batch.count, mean_pixel(&batch),
				batch.flags & PENSTOCK_LAST ? " (last of its epoch)" : "");
			/* From here on the daemon may fill the slot again: read nothing of the
			 * batch after this. */
			result = penstock_batch_release(stream, &batch);
		}
	}
	if (result < 0)
		(void)fprintf(stderr, "read_batches: %s\n", penstock_error());
	penstock_stream_close(stream);
	return result < 0 ? 1 : 0;
}
