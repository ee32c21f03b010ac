/* kernels_image: the compiled kernels as data; see kernels.h. KERNELS_IMAGE is the file. */
#include "client/cuda/kernels.h"

#include <cuda.h>

__asm__(".pushsection .rodata, \"a\", @progbits\n"
	".balign 16\n"
	".global kernels_image\n"
	".hidden kernels_image\n"
	"kernels_image:\n"
	".incbin \"" KERNELS_IMAGE "\"\n"
	".byte 0\n"
	".popsection\n");

const int kernels_cuda_version = CUDA_VERSION;
