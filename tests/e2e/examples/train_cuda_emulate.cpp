/* client/examples/train_cuda/kernels.cu, the very source, compiled for the CPU and run there. This
 * is no GPU: cuda/emulate_device.h supplies the keywords and intrinsics.
 *
 * Shows that the source computes what it should and touches no memory that it should not (under the
 * sanitizers); neither how fast it is, nor what nvcc makes of it. Threads run one after the other,
 * but for functions whose threads wait for each other: those get a host's thread each. */
#include "cuda/emulate_device.h"

#include "client/examples/train_cuda/kernels.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>

thread_local emulate_index threadIdx, blockIdx, gridDim;

namespace
{

thread_local emulate_index blockDim;
pthread_barrier_t barrier;

void __syncthreads()
{
	(void)pthread_barrier_wait(&barrier);
}

const float CUDART_INF_F = INFINITY;

/* IEEE 754, binary16. */
float __half2float(__half value)
{
	unsigned exponent = value.bits >> 10 & 31, fraction = value.bits & 1023;
	float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
			  : exponent == 0 ? ldexpf((float)fraction, -24)
					  : ldexpf((float)(fraction | 1024), (int)exponent - 25);

	return value.bits >> 15 ? -magnitude : magnitude;
}

uint16_t __half_as_ushort(__half value)
{
	return value.bits;
}

template <typename Run> void each_thread(unsigned blocks, unsigned threads, Run run)
{
	gridDim = {blocks, 1, 1};
	blockDim = {threads, 1, 1};
	for (unsigned block = 0; block < blocks; block++)
		for (unsigned thread = 0; thread < threads; thread++) {
			blockIdx = {block, 0, 0};
			threadIdx = {thread, 0, 0};
			run();
		}
}

template <typename Run> struct together {
	const Run *run;
	unsigned blocks, threads, thread;
};

/* One thread of every block, block by block. */
template <typename Run> void *run_together(void *context)
{
	const auto *mine = static_cast<const together<Run> *>(context);

	gridDim = {mine->blocks, 1, 1};
	blockDim = {mine->threads, 1, 1};
	threadIdx = {mine->thread, 0, 0};
	for (unsigned block = 0; block < mine->blocks; block++) {
		blockIdx = {block, 0, 0};
		(*mine->run)();
		(void)pthread_barrier_wait(&barrier);
	}
	return nullptr;
}

template <typename Run> void all_together(unsigned blocks, unsigned threads, Run run)
{
	enum { MOST = 1024 };
	static pthread_t handles[MOST];
	static together<Run> contexts[MOST];

	if (threads > MOST || pthread_barrier_init(&barrier, nullptr, threads) != 0)
		abort();
	for (unsigned i = 0; i < threads; i++) {
		contexts[i] = {&run, blocks, threads, i};
		if (pthread_create(&handles[i], nullptr, run_together<Run>, &contexts[i]) != 0) {
			(void)fprintf(stderr, "emulate: no more threads\n");
			abort();
		}
	}
	for (unsigned i = 0; i < threads; i++)
		(void)pthread_join(handles[i], nullptr);
	(void)pthread_barrier_destroy(&barrier);
}

} // namespace

#define __shared__ static
#define LAUNCH(kernel, blocks, threads, ops, ...)                           \
	do {                                                                \
		(void)(ops);                                                \
		each_thread(blocks, threads, [&] { kernel(__VA_ARGS__); }); \
	} while (0)
#define LAUNCH_TOGETHER(kernel, blocks, threads, ops, ...)                   \
	do {                                                                 \
		(void)(ops);                                                 \
		all_together(blocks, threads, [&] { kernel(__VA_ARGS__); }); \
	} while (0)

using std::isfinite;

#include "client/examples/train_cuda/kernels.cu"
