/* train_cuda_self_test [DEVICE]: each operation of train_cuda on a GPU, against plain sums on the
 * host. Exit code 0: all agree; 1 otherwise, and without a GPU. */
#include "train_cuda_host.h"
#include "train_cuda_self_test.h"

#include <stdlib.h>

enum { DEVICES_MOST = 1023 };

int main(int argc, char **argv)
{
	char *end = NULL;
	long number = argc > 1 ? strtol(argv[1], &end, 10) : 0;

	if (argc > 2 || (end && (end == argv[1] || *end)) || number < 0 || number > DEVICES_MOST) {
		(void)fprintf(stderr,
			"train_cuda_self_test: expected the GPU's number, 0 to %d\n"
			"usage: train_cuda_self_test [DEVICE]\n",
			DEVICES_MOST);
		return 2;
	}
	struct ops *device = ops_device_open((int)number);
	struct ops *host = ops_cpu_open();
	unsigned failures = self_test(device, host, stdout);

	host->close(host);
	device->close(device);
	return failures != 0;
}
