/* The GPU's implementation of ops.h: convolutions and normalization by cuDNN, matrices by cuBLAS,
 * the rest by kernels.cu; all in one CUDA stream.
 *
 * It uses cuDNN's older interface (descriptors and cudnnConvolution...), which version 9 still has.
 * The algorithms are those that cuDNN's heuristics put first among the deterministic ones
 * (take_proposals). They are not measured, so that a resumed run computes the same sums.
 * Normalization is called as PyTorch calls it for channels_last: CUDNN_BATCHNORM_OPS_BN,
 * CUDNN_BATCHNORM_SPATIAL_PERSISTENT, reserve space. */
#include "fail.h"
#include "kernels.h"
#include "ops.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <stdio.h>
#include <stdlib.h>

#define WORKSPACE ((size_t)256 << 20) /* for convolutions */
#define WORKSPACE_MOST ((size_t)2 << 30) /* if no algorithm makes do with WORKSPACE */

/* cuDNN proposes each algorithm once for each math type. */
enum { PROPOSALS = 32, CANDIDATES = PROPOSALS + 1, MARKS = 64 };

enum way { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, WAYS };

static const char *const way_names[WAYS] = {"cudnnConvolutionForward",
	"cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};

/* The deterministic algorithms that are documented for these types and this layout. */
static const int documented[WAYS] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
	CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};

struct candidate {
	int algorithm; /* in the enumeration of its way */
	size_t memory;
	cudnnMathType_t math;
	bool exact; /* the same sums give the same bits each time */
};

struct proposal {
	int algorithm;
	cudnnStatus_t status;
	size_t memory;
	cudnnDeterminism_t determinism;
	cudnnMathType_t math;
};

struct conv {
	struct ops_conv shape;
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	cudnnConvolutionDescriptor_t how;
	struct candidate candidate[WAYS][CANDIDATES]; /* the first is tried first */
	unsigned count[WAYS], taken[WAYS];
};

struct norm {
	cudnnTensorDescriptor_t x, values;
	cudnnBatchNormMode_t mode;
	float *mean, *inverse; /* from the last norm_forward */
	void *reserve;
	size_t reserve_bytes, forward_bytes, backward_bytes;
};

/* The beginning and the end of one batch's work in the queue. */
struct mark {
	cudaEvent_t begin, end;
	double waited_s;
};

struct device {
	struct ops ops;
	cudaStream_t queue;
	cudnnHandle_t cudnn;
	cublasHandle_t cublas;
	void *workspace;
	size_t workspace_bytes;
	struct mark mark[MARKS];
	uint64_t begun, passed; /* batches; those among them that idle_s has counted */
	double idle_s;
	bool told_inexact;
};

static const float one = 1, zero = 0;

/* ---- failures ---- */

static void check_cuda(cudaError_t status, const char *call)
{
	if (status == cudaSuccess)
		return;
	fail("%s: %s (%s)", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

static void check_cudnn(cudnnStatus_t status, const char *call)
{
	char why[512] = "";

	if (status == CUDNN_STATUS_SUCCESS)
		return;
	cudnnGetLastErrorString(why, sizeof(why));
	fail("%s: %s: %s (cuDNN %zu)", call, cudnnGetErrorString(status), why, cudnnGetVersion());
}

static void check_cublas(cublasStatus_t status, const char *call)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return;
	fail("%s: %s", call, cublasGetStatusString(status));
}

static struct device *device_of(struct ops *ops)
{
	return ops->self;
}

/* ---- memory ---- */

static void *device_new(size_t bytes)
{
	void *memory = NULL;
	size_t free_bytes = 0, all = 0;
	cudaError_t status = cudaMalloc(&memory, bytes);

	if (status == cudaErrorMemoryAllocation) {
		(void)cudaMemGetInfo(&free_bytes, &all);
		fail("cudaMalloc: %zu MiB are needed, %zu of the GPU's %zu MiB are "
		     "free: use a smaller --batch-size, --image-size or --width",
			(bytes >> 20) + 1, free_bytes >> 20, all >> 20);
	}
	check_cuda(status, "cudaMalloc");
	return memory;
}

static void *cuda_allocate(struct ops *ops, size_t bytes)
{
	void *memory = device_new(bytes);

	check_cuda(cudaMemsetAsync(memory, 0, bytes, device_of(ops)->queue), "cudaMemsetAsync");
	return memory;
}

static void cuda_release(struct ops *ops, void *memory)
{
	(void)ops;
	check_cuda(cudaFree(memory), "cudaFree");
}

static void cuda_put(struct ops *ops, void *to, const void *from, size_t bytes)
{
	cudaStream_t queue = device_of(ops)->queue;

	check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue),
		"cudaMemcpyAsync to the device");
	check_cuda(cudaStreamSynchronize(queue), "cudaStreamSynchronize");
}

static void cuda_get(struct ops *ops, void *to, const void *from, size_t bytes)
{
	cudaStream_t queue = device_of(ops)->queue;

	check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue),
		"cudaMemcpyAsync from the device");
	check_cuda(cudaStreamSynchronize(queue), "cudaStreamSynchronize");
}

static void cuda_zero(struct ops *ops, void *memory, size_t bytes)
{
	check_cuda(cudaMemsetAsync(memory, 0, bytes, device_of(ops)->queue), "cudaMemsetAsync");
}

static void cuda_copy(struct ops *ops, void *to, const void *from, size_t bytes)
{
	check_cuda(
		cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, device_of(ops)->queue),
		"cudaMemcpyAsync on the device");
}

/* Memory for the libraries' intermediate results; it only grows. */
static void want_workspace(struct device *device, size_t bytes)
{
	if (bytes <= device->workspace_bytes)
		return;
	check_cuda(cudaFree(device->workspace), "cudaFree"); /* waits for the work that uses it */
	device->workspace = device_new(bytes);
	device->workspace_bytes = bytes;
}

/* ---- convolutions ---- */

static cudnnTensorDescriptor_t tensor_new(const struct ops_map *map)
{
	cudnnTensorDescriptor_t tensor;

	check_cudnn(cudnnCreateTensorDescriptor(&tensor), "cudnnCreateTensorDescriptor");
	check_cudnn(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF,
			    (int)map->n, (int)map->c, (int)map->h, (int)map->w),
		"cudnnSetTensor4dDescriptor");
	return tensor;
}

static void describe(struct conv *conv)
{
	const struct ops_conv *shape = &conv->shape;
	struct ops_map x = {.n = shape->n, .h = shape->h, .w = shape->w, .c = shape->c};
	struct ops_map y = {.n = shape->n,
		.h = ops_conv_out(shape, shape->h),
		.w = ops_conv_out(shape, shape->w),
		.c = shape->k};
	int pad = (int)shape->pad, stride = (int)shape->stride, kernel = (int)shape->kernel;

	conv->x = tensor_new(&x);
	conv->y = tensor_new(&y);
	check_cudnn(cudnnCreateFilterDescriptor(&conv->w), "cudnnCreateFilterDescriptor");
	check_cudnn(cudnnSetFilter4dDescriptor(conv->w, CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC,
			    (int)shape->k, (int)shape->c, kernel, kernel),
		"cudnnSetFilter4dDescriptor");
	check_cudnn(
		cudnnCreateConvolutionDescriptor(&conv->how), "cudnnCreateConvolutionDescriptor");
	check_cudnn(cudnnSetConvolution2dDescriptor(conv->how, pad, pad, stride, stride, 1, 1,
			    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
		"cudnnSetConvolution2dDescriptor");
	check_cudnn(cudnnSetConvolutionMathType(conv->how, CUDNN_TENSOR_OP_MATH),
		"cudnnSetConvolutionMathType");
}

static void take_proposal(
	struct conv *conv, enum way way, const struct proposal *proposal, bool exact, bool small)
{
	if (proposal->status == CUDNN_STATUS_SUCCESS && proposal->memory <= WORKSPACE_MOST &&
		(proposal->memory <= WORKSPACE) == small &&
		(proposal->determinism == CUDNN_DETERMINISTIC) == exact)
		conv->candidate[way][conv->count[way]++] =
			(struct candidate){.algorithm = proposal->algorithm,
				.memory = proposal->memory,
				.math = proposal->math,
				.exact = exact};
}

/* Order: first the deterministic algorithms that make do with WORKSPACE, then the other
 * deterministic ones, then the one that is documented to work (whatever the heuristics say of it),
 * last those that are not deterministic. */
static void take_proposals(
	struct conv *conv, enum way way, const struct proposal *proposals, int found)
{
	for (int i = 0; i < found; i++)
		take_proposal(conv, way, &proposals[i], true, true);
	for (int i = 0; i < found; i++)
		take_proposal(conv, way, &proposals[i], true, false);
	conv->candidate[way][conv->count[way]++] = (struct candidate){.algorithm = documented[way],
		.memory = WORKSPACE,
		.math = CUDNN_TENSOR_OP_MATH,
		.exact = true};
	for (int i = 0; i < found; i++)
		take_proposal(conv, way, &proposals[i], false, true);
	for (int i = 0; i < found; i++)
		take_proposal(conv, way, &proposals[i], false, false);
}

/* cuDNN's three functions differ in the type of `algo`, and in the order of the tensors. */
#define PROPOSE(device, conv, way, function, perf, a, b, c)                                  \
	do {                                                                                 \
		perf from[PROPOSALS];                                                        \
		struct proposal proposals[PROPOSALS];                                        \
		int found = 0;                                                               \
		check_cudnn(function((device)->cudnn, (a), (b), (conv)->how, (c), PROPOSALS, \
				    &found, from),                                           \
			#function);                                                          \
		for (int i = 0; i < found; i++)                                              \
			proposals[i] = (struct proposal){.algorithm = (int)from[i].algo,     \
				.status = from[i].status,                                    \
				.memory = from[i].memory,                                    \
				.determinism = from[i].determinism,                          \
				.math = from[i].mathType};                                   \
		take_proposals((conv), (way), proposals, found);                             \
	} while (0)

static void propose(struct device *device, struct conv *conv)
{
	PROPOSE(device, conv, FORWARD, cudnnGetConvolutionForwardAlgorithm_v7,
		cudnnConvolutionFwdAlgoPerf_t, conv->x, conv->w, conv->y);
	PROPOSE(device, conv, BACKWARD_DATA, cudnnGetConvolutionBackwardDataAlgorithm_v7,
		cudnnConvolutionBwdDataAlgoPerf_t, conv->w, conv->y, conv->x);
	PROPOSE(device, conv, BACKWARD_FILTER, cudnnGetConvolutionBackwardFilterAlgorithm_v7,
		cudnnConvolutionBwdFilterAlgoPerf_t, conv->x, conv->y, conv->w);
}

static struct conv *cuda_conv_new(struct ops *ops, const struct ops_conv *shape)
{
	struct conv *conv = host_new(1, sizeof(*conv));
	struct device *device = device_of(ops);

	conv->shape = *shape;
	describe(conv);
	propose(device, conv);
	want_workspace(device, WORKSPACE);
	return conv;
}

static void cuda_conv_free(struct ops *ops, struct conv *conv)
{
	(void)ops;
	check_cudnn(cudnnDestroyTensorDescriptor(conv->x), "cudnnDestroyTensorDescriptor");
	check_cudnn(cudnnDestroyTensorDescriptor(conv->y), "cudnnDestroyTensorDescriptor");
	check_cudnn(cudnnDestroyFilterDescriptor(conv->w), "cudnnDestroyFilterDescriptor");
	check_cudnn(
		cudnnDestroyConvolutionDescriptor(conv->how), "cudnnDestroyConvolutionDescriptor");
	free(conv);
}

/* The algorithm to try. Its math type is set, and its workspace is allocated. */
static int algorithm_of(struct device *device, struct conv *conv, enum way way)
{
	const struct candidate *candidate = &conv->candidate[way][conv->taken[way]];

	check_cudnn(cudnnSetConvolutionMathType(conv->how, candidate->math),
		"cudnnSetConvolutionMathType");
	want_workspace(device, candidate->memory);
	return candidate->algorithm;
}

static void tell_inexact(struct device *device, enum way way)
{
	if (device->told_inexact)
		return;
	device->told_inexact = true;
	fprintf(stderr,
		"train_cuda: %s: cuDNN has no deterministic algorithm for this: a resumed run will "
		"differ in the last bits\n",
		way_names[way]);
}

static void give_up_conv(const struct conv *conv, enum way way)
{
	const struct ops_conv *shape = &conv->shape;

	fprintf(stderr,
		"train_cuda: cuDNN %zu has no algorithm for %u x %u x %u x %u, %u filters of %u x "
		"%u, stride %u; of the %u that were tried the last said:\n",
		cudnnGetVersion(), shape->n, shape->h, shape->w, shape->c, shape->k, shape->kernel,
		shape->kernel, shape->stride, conv->count[way]);
}

/* cuDNN may still refuse a proposal when it is called; then the next one is used from then on.
 * Returns true if there is a next one to call. A failure on the device itself ends the process,
 * because everything after it on the device would fail as well. */
static bool refused(struct device *device, struct conv *conv, enum way way, cudnnStatus_t status)
{
	if (status == CUDNN_STATUS_SUCCESS) {
		if (!conv->candidate[way][conv->taken[way]].exact)
			tell_inexact(device, way);
		return false;
	}
	if (CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_EXECUTION_FAILED) {
		if (++conv->taken[way] < conv->count[way])
			return true;
		give_up_conv(conv, way);
	}
	check_cudnn(status, way_names[way]);
	return false;
}

static void cuda_conv_forward(
	struct ops *ops, struct conv *conv, const void *x, const void *w, void *y)
{
	struct device *device = device_of(ops);
	cudnnStatus_t status;

	do {
		int algorithm = algorithm_of(device, conv, FORWARD);
		status = cudnnConvolutionForward(device->cudnn, &one, conv->x, x, conv->w, w,
			conv->how, (cudnnConvolutionFwdAlgo_t)algorithm, device->workspace,
			device->workspace_bytes, &zero, conv->y, y);
	} while (refused(device, conv, FORWARD, status));
}

static void cuda_conv_backward_data(
	struct ops *ops, struct conv *conv, const void *w, const void *dy, void *dx)
{
	struct device *device = device_of(ops);
	cudnnStatus_t status;

	do {
		int algorithm = algorithm_of(device, conv, BACKWARD_DATA);
		status = cudnnConvolutionBackwardData(device->cudnn, &one, conv->w, w, conv->y, dy,
			conv->how, (cudnnConvolutionBwdDataAlgo_t)algorithm, device->workspace,
			device->workspace_bytes, &zero, conv->x, dx);
	} while (refused(device, conv, BACKWARD_DATA, status));
}

static void cuda_conv_backward_filter(
	struct ops *ops, struct conv *conv, const void *x, const void *dy, void *dw)
{
	struct device *device = device_of(ops);
	cudnnStatus_t status;

	do {
		int algorithm = algorithm_of(device, conv, BACKWARD_FILTER);
		status = cudnnConvolutionBackwardFilter(device->cudnn, &one, conv->x, x, conv->y,
			dy, conv->how, (cudnnConvolutionBwdFilterAlgo_t)algorithm,
			device->workspace, device->workspace_bytes, &zero, conv->w, dw);
	} while (refused(device, conv, BACKWARD_FILTER, status));
}

/* ---- normalization ---- */

/* The memory that cuDNN wants in this mode. */
static cudnnStatus_t norm_rooms(struct device *device, struct norm *norm)
{
	cudnnStatus_t status = cudnnDeriveBNTensorDescriptor(norm->values, norm->x, norm->mode);

	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(device->cudnn,
			norm->mode, CUDNN_BATCHNORM_OPS_BN, norm->x, norm->x, norm->x, norm->values,
			NULL, &norm->forward_bytes);
	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnnGetBatchNormalizationBackwardExWorkspaceSize(device->cudnn,
			norm->mode, CUDNN_BATCHNORM_OPS_BN, norm->x, norm->x, norm->x, NULL,
			norm->x, norm->values, NULL, &norm->backward_bytes);
	if (status == CUDNN_STATUS_SUCCESS)
		status = cudnnGetBatchNormalizationTrainingExReserveSpaceSize(device->cudnn,
			norm->mode, CUDNN_BATCHNORM_OPS_BN, NULL, norm->x, &norm->reserve_bytes);
	return status;
}

static struct norm *cuda_norm_new(struct ops *ops, const struct ops_map *shape)
{
	struct norm *norm = host_new(1, sizeof(*norm));
	struct device *device = device_of(ops);

	norm->x = tensor_new(shape);
	check_cudnn(cudnnCreateTensorDescriptor(&norm->values), "cudnnCreateTensorDescriptor");
	norm->mode = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
	if (norm_rooms(device, norm) != CUDNN_STATUS_SUCCESS) {
		norm->mode = CUDNN_BATCHNORM_SPATIAL;
		check_cudnn(norm_rooms(device, norm),
			"cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize");
	}
	want_workspace(device, norm->forward_bytes);
	want_workspace(device, norm->backward_bytes);
	if (norm->reserve_bytes)
		norm->reserve = cuda_allocate(ops, norm->reserve_bytes);
	norm->mean = cuda_allocate(ops, shape->c * sizeof(float));
	norm->inverse = cuda_allocate(ops, shape->c * sizeof(float));
	return norm;
}

static void cuda_norm_free(struct ops *ops, struct norm *norm)
{
	check_cudnn(cudnnDestroyTensorDescriptor(norm->x), "cudnnDestroyTensorDescriptor");
	check_cudnn(cudnnDestroyTensorDescriptor(norm->values), "cudnnDestroyTensorDescriptor");
	cuda_release(ops, norm->mean);
	cuda_release(ops, norm->inverse);
	cuda_release(ops, norm->reserve);
	free(norm);
}

static void cuda_norm_forward(struct ops *ops, struct norm *norm,
	const struct ops_norm_values *values, const void *x, void *y)
{
	struct device *device = device_of(ops);

	check_cudnn(
		cudnnBatchNormalizationForwardTrainingEx(device->cudnn, norm->mode,
			CUDNN_BATCHNORM_OPS_BN, &one, &zero, norm->x, x, NULL, NULL, norm->x, y,
			norm->values, values->scale, values->shift, OPS_NORM_MOMENTUM, values->mean,
			values->variance, OPS_NORM_EPSILON, norm->mean, norm->inverse, NULL,
			device->workspace, norm->forward_bytes, norm->reserve, norm->reserve_bytes),
		"cudnnBatchNormalizationForwardTrainingEx");
}

static void cuda_norm_infer(struct ops *ops, struct norm *norm,
	const struct ops_norm_values *values, const void *x, void *y)
{
	/* The documentation describes inference for the mode without "persistent". */
	check_cudnn(cudnnBatchNormalizationForwardInference(device_of(ops)->cudnn,
			    CUDNN_BATCHNORM_SPATIAL, &one, &zero, norm->x, x, norm->x, y,
			    norm->values, values->scale, values->shift, values->mean,
			    values->variance, OPS_NORM_EPSILON),
		"cudnnBatchNormalizationForwardInference");
}

static void cuda_norm_backward(struct ops *ops, struct norm *norm, const float *scale,
	const void *x, const void *dy, void *dx, float *d_scale, float *d_shift)
{
	struct device *device = device_of(ops);

	check_cudnn(
		cudnnBatchNormalizationBackwardEx(device->cudnn, norm->mode, CUDNN_BATCHNORM_OPS_BN,
			&one, &zero, &one, &zero, norm->x, x, NULL, NULL, norm->x, dy, NULL, NULL,
			norm->x, dx, norm->values, scale, NULL, d_scale, d_shift, OPS_NORM_EPSILON,
			norm->mean, norm->inverse, NULL, device->workspace, norm->backward_bytes,
			norm->reserve, norm->reserve_bytes),
		"cudnnBatchNormalizationBackwardEx");
}

/* ---- matrices ---- */

/* cuBLAS takes matrices by columns: it sees ours as transposed, so C' = B' A'. */
static void cuda_gemm(struct ops *ops, const struct ops_gemm *shape, const void *a, const void *b,
	void *c, bool wide)
{
	int m = (int)shape->m, n = (int)shape->n, k = (int)shape->k;

	check_cublas(cublasGemmEx(device_of(ops)->cublas,
			     shape->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
			     shape->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b,
			     CUDA_R_16F, shape->b_transposed ? k : n, a, CUDA_R_16F,
			     shape->a_transposed ? m : k, &zero, c, wide ? CUDA_R_32F : CUDA_R_16F,
			     n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
		"cublasGemmEx");
}

/* ---- the clock ---- */

/* Counts the idle time of the batches that the device has begun. Between the end of one batch and
 * the beginning of the next the device had nothing to do; as long as the host was waiting for a
 * batch, that was the reason. */
static void pass_marks(struct device *device)
{
	while (device->passed < device->begun) {
		struct mark *mark = &device->mark[device->passed % MARKS];
		cudaError_t status = cudaEventQuery(mark->begin);
		float gap_ms = 0;
		if (status == cudaErrorNotReady) {
			/* The runtime may keep this as the last error, and the next launch would
			 * report it as its own. */
			(void)cudaGetLastError();
			return;
		}
		check_cuda(status, "cudaEventQuery");
		if (device->passed > 0) {
			struct mark *before = &device->mark[(device->passed - 1) % MARKS];
			check_cuda(cudaEventElapsedTime(&gap_ms, before->end, mark->begin),
				"cudaEventElapsedTime");
			device->idle_s +=
				gap_ms / 1e3 < mark->waited_s ? gap_ms / 1e3 : mark->waited_s;
		}
		device->passed++;
	}
}

static void cuda_begin(struct ops *ops, double waited_s)
{
	struct device *device = device_of(ops);
	struct mark *mark = &device->mark[device->begun % MARKS];

	/* The batch whose events are reused, and the end before the oldest one that is not counted,
	 * must have been read. */
	if (device->begun - device->passed >= MARKS - 1)
		check_cuda(cudaEventSynchronize(device->mark[device->passed % MARKS].begin),
			"cudaEventSynchronize");
	pass_marks(device);
	mark->waited_s = waited_s;
	check_cuda(cudaEventRecord(mark->begin, device->queue), "cudaEventRecord");
	device->begun++;
}

static void cuda_end(struct ops *ops)
{
	struct device *device = device_of(ops);

	check_cuda(cudaEventRecord(device->mark[(device->begun - 1) % MARKS].end, device->queue),
		"cudaEventRecord");
}

static double cuda_idle_s(struct ops *ops)
{
	pass_marks(device_of(ops));
	return device_of(ops)->idle_s;
}

/* ---- open and close ---- */

static void cuda_close(struct ops *ops)
{
	struct device *device = device_of(ops);

	check_cuda(cudaStreamSynchronize(device->queue), "cudaStreamSynchronize");
	for (unsigned i = 0; i < MARKS; i++) {
		check_cuda(cudaEventDestroy(device->mark[i].begin), "cudaEventDestroy");
		check_cuda(cudaEventDestroy(device->mark[i].end), "cudaEventDestroy");
	}
	check_cublas(cublasDestroy(device->cublas), "cublasDestroy");
	check_cudnn(cudnnDestroy(device->cudnn), "cudnnDestroy");
	check_cuda(cudaFree(device->workspace), "cudaFree");
	check_cuda(cudaStreamDestroy(device->queue), "cudaStreamDestroy");
	free(device);
}

static const struct ops cuda = {
	.name = "GPU",
	.half_bytes = 2,
	.close = cuda_close,
	.allocate = cuda_allocate,
	.release = cuda_release,
	.put = cuda_put,
	.get = cuda_get,
	.zero = cuda_zero,
	.copy = cuda_copy,
	.conv_new = cuda_conv_new,
	.conv_free = cuda_conv_free,
	.conv_forward = cuda_conv_forward,
	.conv_backward_data = cuda_conv_backward_data,
	.conv_backward_filter = cuda_conv_backward_filter,
	.norm_new = cuda_norm_new,
	.norm_free = cuda_norm_free,
	.norm_forward = cuda_norm_forward,
	.norm_infer = cuda_norm_infer,
	.norm_backward = cuda_norm_backward,
	.gemm = cuda_gemm,
	.begin = cuda_begin,
	.end = cuda_end,
	.idle_s = cuda_idle_s,
};

static void choose_device(int number)
{
	int devices = 0;
	cudaError_t status = cudaGetDeviceCount(&devices);

	if (status == cudaSuccess && number >= devices)
		status = cudaErrorInvalidDevice;
	if (status == cudaSuccess)
		status = cudaSetDevice(number);
	if (status == cudaSuccess)
		return;
	fail("cannot use GPU %d: %s (%s): needs an NVIDIA GPU whose driver "
	     "(nvidia-smi shows it) knows CUDA %d.%d; train_cpu trains without one",
		number, cudaGetErrorString(status), cudaGetErrorName(status), CUDART_VERSION / 1000,
		CUDART_VERSION % 1000 / 10);
}

struct ops *ops_device_open(int number)
{
	struct device *device;

	choose_device(number);
	device = host_new(1, sizeof(*device));
	device->ops = cuda;
	kernels_fill(&device->ops);
	check_cuda(cudaStreamCreateWithFlags(&device->queue, cudaStreamNonBlocking),
		"cudaStreamCreateWithFlags");
	check_cudnn(cudnnCreate(&device->cudnn), "cudnnCreate");
	check_cudnn(cudnnSetStream(device->cudnn, device->queue), "cudnnSetStream");
	check_cublas(cublasCreate(&device->cublas), "cublasCreate");
	check_cublas(cublasSetStream(device->cublas, device->queue), "cublasSetStream");
	/* Partial sums stay float. */
	check_cublas(cublasSetMathMode(device->cublas,
			     (cublasMath_t)((int)CUBLAS_DEFAULT_MATH |
					    (int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
		"cublasSetMathMode");
	for (unsigned i = 0; i < MARKS; i++) {
		check_cuda(cudaEventCreate(&device->mark[i].begin), "cudaEventCreate");
		check_cuda(cudaEventCreate(&device->mark[i].end), "cudaEventCreate");
	}
	device->ops.queue = device->queue;
	device->ops.self = device;
	return &device->ops;
}
