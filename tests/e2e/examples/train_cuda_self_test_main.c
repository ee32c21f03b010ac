/* train_cuda_self_test [DEVICE]: each operation of train_cuda on a GPU, against plain sums on the
 * host. Exit code 0: all agree; 1 otherwise, and without a GPU. */
#include "train_cuda_host.h"
#include "train_cuda_self_test.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
	struct ops *device = ops_device_open(argc > 1 ? atoi(argv[1]) : 0);
	struct ops *host = ops_cpu_open();
	unsigned failures = self_test(device, host, stdout);

	host->close(host);
	device->close(device);
	return failures != 0;
}
