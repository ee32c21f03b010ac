/* container: see container.h. */
#include "dataset/container/container.h"

#include "base/util.h"

const struct container *container_of(uint32_t kind)
{
	static const struct container *const containers[] = {
		[DATASET_FOLDER] = &container_folder,
		[DATASET_TARS] = &container_tar,
		[DATASET_PARQUET] = &container_parquet,
		[DATASET_TFRECORD] = &container_tfrecord,
		[DATASET_MDS] = &container_mds,
		[DATASET_LITDATA] = &container_litdata,
		[DATASET_ZIP] = &container_zip,
		[DATASET_LMDB] = &container_lmdb,
		[DATASET_RECORDIO] = &container_recordio,
		[DATASET_CIFAR] = &container_cifar,
		[DATASET_MNIST] = &container_mnist,
	};
	return kind < UTIL_COUNT(containers) ? containers[kind] : NULL;
}
