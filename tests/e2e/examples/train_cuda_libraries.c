/* A made-up cuDNN, cuBLAS and CUDA runtime on the CPU, as far as train_cuda's ops_cuda.c calls
 * them. Only for tests; none of this is NVIDIA's code.
 *
 * Each function does what the toolkit's headers say it does, with train_cuda_host.c's numbers, and
 * ends the process where it is called with something that does not fit: a descriptor of another
 * shape, a workspace that is too small, matrices in another layout. It refuses some of what it
 * proposed, as cuDNN may. It cannot show what the real ones support, round, or how fast they are.
 *
 * main: the self-test of ops_cuda.c on this, against the host. */
#include "train_cuda_emulated.h"
#include "train_cuda_host.h"
#include "train_cuda_self_test.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The headers name parameters differently.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

enum { TRUSTED_BYTES = 4096, LARGE_BYTES = 300 << 20, NORMS = 64, LAG = 100 };

#define EXPECT(what) expect((what), #what, __func__)

static struct ops *emulated; /* float16, cuDNN's and cuBLAS's numbers */

static void expect(bool true_, const char *what, const char *where)
{
	if (true_)
		return;
	fprintf(stderr, "%s: not so: %s\n", where, what);
	abort();
}

static void *room(size_t bytes)
{
	void *memory = calloc(1, bytes);

	EXPECT(memory != NULL);
	return memory;
}

/* Defines a library's functions that make and free an object: zeros. */
#define OBJECT(status, success, type, make, destroy) \
	status make(type *object)                    \
	{                                            \
		*object = room(sizeof(**object));    \
		return success;                      \
	}                                            \
	status destroy(type object)                  \
	{                                            \
		free(object);                        \
		return success;                      \
	}

/* ---- the CUDA runtime: one stream, which is always empty; events that pass late ---- */

struct CUstream_st {
	int alive;
};

struct CUevent_st {
	uint64_t recorded; /* which record this was */
};

static uint64_t records, synchronized; /* so far; those of them that a synchronisation waited for */

/* What cudaGetLastError gives. A kernel's launch returns nothing: whatever is left here is taken
 * for its failure (kernels.cu). */
static cudaError_t left = cudaSuccess;

cudaError_t cudaGetLastError(void)
{
	cudaError_t error = left;

	left = cudaSuccess;
	return error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 1;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	EXPECT(device == 0);
	return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
	return error == cudaSuccess ? "cudaSuccess" : "another";
}

const char *cudaGetErrorString(cudaError_t error)
{
	return cudaGetErrorName(error);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	EXPECT(posix_memalign(memory, 256, bytes ? bytes : 1) == 0);
	memset(*memory, 0xff, bytes); /* NaN in every type */
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	*free_bytes = *total = 0;
	return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
	free(memory);
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t queue)
{
	EXPECT(queue && queue->alive);
	memset(memory, value, bytes);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
	void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t queue)
{
	EXPECT(queue && queue->alive);
	EXPECT(kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost ||
		kind == cudaMemcpyDeviceToDevice);
	memcpy(to, from, bytes);
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *queue, unsigned flags)
{
	EXPECT(flags == cudaStreamNonBlocking);
	*queue = room(sizeof(**queue));
	(*queue)->alive = 1;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t queue)
{
	EXPECT(queue && queue->alive);
	synchronized = records;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t queue)
{
	free(queue);
	return cudaSuccess;
}

OBJECT(cudaError_t, cudaSuccess, cudaEvent_t, cudaEventCreate, cudaEventDestroy)

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t queue)
{
	EXPECT(queue && queue->alive);
	EXPECT(left == cudaSuccess); /* a batch's kernels are launched after its first event */
	event->recorded = ++records;
	return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	EXPECT(event->recorded != 0);
	if (event->recorded <= synchronized || records - event->recorded >= LAG)
		return cudaSuccess;
	left = cudaErrorNotReady; /* PyTorch and others met it there; NVIDIA's guide says it is not
				   */
	return left;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	EXPECT(event->recorded != 0);
	if (synchronized < event->recorded)
		synchronized = event->recorded;
	return cudaSuccess;
}

/* A millisecond passes between two records. */
cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t begin, cudaEvent_t end)
{
	EXPECT(begin->recorded != 0 && end->recorded > begin->recorded);
	EXPECT(end->recorded - begin->recorded == 1); /* only neighbors are compared */
	*ret_ms = (float)(end->recorded - begin->recorded);
	return cudaSuccess;
}

/* ---- cuBLAS: matrices by columns ---- */

struct cublasContext {
	cudaStream_t queue;
};

OBJECT(cublasStatus_t, CUBLAS_STATUS_SUCCESS, cublasHandle_t, cublasCreate_v2, cublasDestroy_v2)

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t queue)
{
	handle->queue = queue;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
	EXPECT(handle && ((int)mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
	return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? "success" : "another";
}

static float half_at(const void *memory, size_t at)
{
	float value;

	emulated->to_float(emulated, &value, (const char *)memory + 2 * at, 1);
	return value;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
	cublasOperation_t transb, int m, int n, int k, const void *alpha, const void *A,
	cudaDataType Atype, int lda, const void *B, cudaDataType Btype, int ldb, const void *beta,
	void *C, cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
	cublasGemmAlgo_t algo)
{
	EXPECT(handle->queue && handle->queue->alive && algo == CUBLAS_GEMM_DEFAULT);
	EXPECT(*(const float *)alpha == 1 && *(const float *)beta == 0);
	EXPECT(Atype == CUDA_R_16F && Btype == CUDA_R_16F && computeType == CUBLAS_COMPUTE_32F);
	EXPECT(lda >= (transa == CUBLAS_OP_N ? m : k) && ldb >= (transb == CUBLAS_OP_N ? k : n));
	EXPECT(ldc >= m);
	for (int column = 0; column < n; column++)
		for (int row = 0; row < m; row++) {
			float sum = 0;
			for (int i = 0; i < k; i++)
				sum += half_at(A, transa == CUBLAS_OP_N ? (size_t)i * lda + row
									: (size_t)row * lda + i) *
				       half_at(B, transb == CUBLAS_OP_N ? (size_t)column * ldb + i
									: (size_t)i * ldb + column);
			if (Ctype == CUDA_R_32F)
				((float *)C)[(size_t)column * ldc + row] = sum;
			else
				emulated->to_half(emulated,
					(char *)C + 2 * ((size_t)column * ldc + row), &sum, 1);
		}
	return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuDNN: descriptors ---- */

struct cudnnContext {
	cudaStream_t queue;
};

struct cudnnTensorStruct {
	struct ops_map map;
	cudnnDataType_t type;
	bool derived; /* of a normalisation's values */
};

struct cudnnFilterStruct {
	unsigned k, c, h, w;
};

struct cudnnConvolutionStruct {
	unsigned pad, stride;
	cudnnMathType_t math;
};

OBJECT(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnHandle_t, cudnnCreate, cudnnDestroy)

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t queue)
{
	handle->queue = queue;
	return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
	return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
	return status == CUDNN_STATUS_SUCCESS ? "success" : "another";
}

void cudnnGetLastErrorString(char *message, size_t room_bytes)
{
	EXPECT(room_bytes > 0);
	message[0] = 0;
}

OBJECT(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor,
	cudnnDestroyTensorDescriptor)

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
	cudnnDataType_t type, int n, int c, int h, int w)
{
	EXPECT(format == CUDNN_TENSOR_NHWC && type == CUDNN_DATA_HALF);
	tensor->map = (struct ops_map){
		.n = (unsigned)n, .h = (unsigned)h, .w = (unsigned)w, .c = (unsigned)c};
	tensor->type = type;
	return CUDNN_STATUS_SUCCESS;
}

OBJECT(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor,
	cudnnDestroyFilterDescriptor)

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
	cudnnTensorFormat_t format, int k, int c, int h, int w)
{
	EXPECT(format == CUDNN_TENSOR_NHWC && type == CUDNN_DATA_HALF);
	*filter = (struct cudnnFilterStruct){
		.k = (unsigned)k, .c = (unsigned)c, .h = (unsigned)h, .w = (unsigned)w};
	return CUDNN_STATUS_SUCCESS;
}

OBJECT(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnConvolutionDescriptor_t,
	cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor)

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h,
	int pad_w, int u, int v, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
	cudnnDataType_t type)
{
	EXPECT(pad_h == pad_w && u == v && dilation_h == 1 && dilation_w == 1);
	EXPECT(mode == CUDNN_CROSS_CORRELATION && type == CUDNN_DATA_FLOAT);
	conv->pad = (unsigned)pad_h;
	conv->stride = (unsigned)u;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math)
{
	conv->math = math;
	return CUDNN_STATUS_SUCCESS;
}

/* ---- cuDNN: convolutions ---- */

/* What is proposed, the best first: one that is not deterministic; the one that is documented, of
 * which the heuristics say that it is not supported; one that wants too much; two that are refused
 * when they are called, one of them for its workspace; one that wants much; and one that works, for
 * filters of 3 x 3. Of 1 x 1 only the one that wants much does, of 7 x 7 the documented one. */
enum algorithm { INEXACT, DOCUMENTED, GREEDY, REFUSED, CRAMPED, LARGE, GOOD, ALGORITHMS };

static unsigned used[ALGORITHMS];

#define PROPOSE(type, proposals)                                                              \
	for (int i = 0; i < ALGORITHMS; i++)                                                  \
		(proposals)[i] = (type)                                                       \
		{                                                                             \
			.algo = i,                                                            \
			.status = i == DOCUMENTED ? CUDNN_STATUS_NOT_SUPPORTED                \
						  : CUDNN_STATUS_SUCCESS,                     \
			.memory = i == GREEDY  ? (size_t)1 << 40                              \
				  : i == LARGE ? LARGE_BYTES                                  \
					       : TRUSTED_BYTES,                               \
			.determinism =                                                        \
				i == INEXACT ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC, \
			.mathType = i == GOOD ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH     \
		}

static struct ops_conv shape_of(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
	cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y)
{
	struct ops_conv shape = {.n = x->map.n,
		.h = x->map.h,
		.w = x->map.w,
		.c = x->map.c,
		.k = w->k,
		.kernel = w->h,
		.stride = conv->stride,
		.pad = conv->pad};

	EXPECT(w->h == w->w && w->c == x->map.c && y->map.n == x->map.n && y->map.c == w->k);
	EXPECT(y->map.h == ops_conv_out(&shape, shape.h));
	EXPECT(y->map.w == ops_conv_out(&shape, shape.w));
	return shape;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle,
	cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
	cudnnTensorDescriptor_t y, int wanted, int *found, cudnnConvolutionFwdAlgoPerf_t *proposals)
{
	EXPECT(handle && wanted >= ALGORITHMS && conv->math == CUDNN_TENSOR_OP_MATH);
	(void)shape_of(x, w, conv, y);
	PROPOSE(cudnnConvolutionFwdAlgoPerf_t, proposals);
	*found = ALGORITHMS;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle,
	cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
	cudnnTensorDescriptor_t dx, int wanted, int *found,
	cudnnConvolutionBwdDataAlgoPerf_t *proposals)
{
	EXPECT(handle && wanted >= ALGORITHMS && conv->math == CUDNN_TENSOR_OP_MATH);
	(void)shape_of(dx, w, conv, dy);
	PROPOSE(cudnnConvolutionBwdDataAlgoPerf_t, proposals);
	*found = ALGORITHMS;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle,
	cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
	cudnnFilterDescriptor_t dw, int wanted, int *found,
	cudnnConvolutionBwdFilterAlgoPerf_t *proposals)
{
	EXPECT(handle && wanted >= ALGORITHMS && conv->math == CUDNN_TENSOR_OP_MATH);
	(void)shape_of(x, dw, conv, dy);
	PROPOSE(cudnnConvolutionBwdFilterAlgoPerf_t, proposals);
	*found = ALGORITHMS;
	return CUDNN_STATUS_SUCCESS;
}

/* Which one works. */
static enum algorithm working(unsigned kernel)
{
	return kernel == 1 ? LARGE : kernel == 3 ? GOOD : DOCUMENTED;
}

static cudnnStatus_t accept(enum algorithm algorithm, unsigned kernel,
	cudnnConvolutionDescriptor_t conv, const void *workspace, size_t bytes, const void *alpha,
	const void *beta)
{
	bool tensor = algorithm == GOOD || algorithm == DOCUMENTED;

	EXPECT(algorithm != INEXACT && algorithm != GREEDY && algorithm < ALGORITHMS);
	EXPECT(workspace && bytes >= (algorithm == LARGE ? LARGE_BYTES : TRUSTED_BYTES));
	EXPECT(*(const float *)alpha == 1 && *(const float *)beta == 0);
	EXPECT(conv->math == (tensor ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH));
	used[algorithm]++;
	if (algorithm == working(kernel))
		return CUDNN_STATUS_SUCCESS;
	return algorithm == CRAMPED ? CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT
				    : CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
}

/* The body of a convolution: checks that the algorithm may be used so, and computes. */
#define CONVOLVE(compute, shape_, ...)                                                            \
	do {                                                                                      \
		struct ops_conv shape = shape_;                                                   \
		cudnnStatus_t status = accept(                                                    \
			(enum algorithm)algo, shape.kernel, conv, workspace, bytes, alpha, beta); \
		EXPECT(handle->queue && handle->queue->alive);                                    \
		if (status != CUDNN_STATUS_SUCCESS)                                               \
			return status;                                                            \
		struct conv *made = emulated->conv_new(emulated, &shape);                         \
		emulated->compute(emulated, made, __VA_ARGS__);                                   \
		emulated->conv_free(emulated, made);                                              \
		return CUDNN_STATUS_SUCCESS;                                                      \
	} while (0)

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
	cudnnTensorDescriptor_t xDesc, const void *x, cudnnFilterDescriptor_t wDesc, const void *w,
	cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo, void *workspace,
	size_t bytes, const void *beta, cudnnTensorDescriptor_t yDesc, void *y)
{
	CONVOLVE(conv_forward, shape_of(xDesc, wDesc, conv, yDesc), x, w, y);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
	cudnnFilterDescriptor_t wDesc, const void *w, cudnnTensorDescriptor_t dyDesc,
	const void *dy, cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algo,
	void *workspace, size_t bytes, const void *beta, cudnnTensorDescriptor_t dxDesc, void *dx)
{
	CONVOLVE(conv_backward_data, shape_of(dxDesc, wDesc, conv, dyDesc), w, dy, dx);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
	cudnnTensorDescriptor_t xDesc, const void *x, cudnnTensorDescriptor_t dyDesc,
	const void *dy, cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdFilterAlgo_t algo,
	void *workspace, size_t bytes, const void *beta, cudnnFilterDescriptor_t dwDesc, void *dw)
{
	CONVOLVE(conv_backward_filter, shape_of(xDesc, dwDesc, conv, dyDesc), x, dy, dw);
}

/* ---- cuDNN: normalization ---- */

/* What a forward pass leaves for its backward pass: known by where it was told to save. */
static struct {
	const void *mean, *inverse, *reserve;
	struct norm *norm;
} norms[NORMS];

/* Sixteen channels can only be done the other way. */
static cudnnBatchNormMode_t mode_of(unsigned channels)
{
	return channels == 16 ? CUDNN_BATCHNORM_SPATIAL : CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
}

cudnnStatus_t cudnnDeriveBNTensorDescriptor(
	cudnnTensorDescriptor_t derived, cudnnTensorDescriptor_t x, cudnnBatchNormMode_t mode)
{
	EXPECT(mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT || mode == CUDNN_BATCHNORM_SPATIAL);
	derived->map = (struct ops_map){.n = 1, .h = 1, .w = 1, .c = x->map.c};
	derived->type = CUDNN_DATA_FLOAT;
	derived->derived = true;
	return CUDNN_STATUS_SUCCESS;
}

static bool same_map(cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b)
{
	return a->type == b->type && a->map.n == b->map.n && a->map.h == b->map.h &&
	       a->map.w == b->map.w && a->map.c == b->map.c;
}

static void expect_norm(cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
	cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t values)
{
	EXPECT(handle && mode == mode_of(x->map.c));
	EXPECT(ops == CUDNN_BATCHNORM_OPS_BN && same_map(x, y));
	EXPECT(values->derived && values->map.c == x->map.c && x->map.c % 4 == 0);
}

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(cudnnHandle_t handle,
	cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, cudnnTensorDescriptor_t x,
	cudnnTensorDescriptor_t z, cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t values,
	cudnnActivationDescriptor_t activation, size_t *bytes)
{
	if (mode != mode_of(x->map.c))
		return CUDNN_STATUS_NOT_SUPPORTED;
	expect_norm(handle, mode, ops, x, y, values);
	EXPECT(z && !activation);
	*bytes = TRUSTED_BYTES + 1;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(cudnnHandle_t handle,
	cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, cudnnTensorDescriptor_t x,
	cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t dy, cudnnTensorDescriptor_t dz,
	cudnnTensorDescriptor_t dx, cudnnTensorDescriptor_t values,
	cudnnActivationDescriptor_t activation, size_t *bytes)
{
	expect_norm(handle, mode, ops, x, dx, values);
	EXPECT(y && !dz && !activation && dy);
	*bytes = TRUSTED_BYTES + 2;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t handle,
	cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, cudnnActivationDescriptor_t activation,
	cudnnTensorDescriptor_t x, size_t *bytes)
{
	EXPECT(ops == CUDNN_BATCHNORM_OPS_BN && x && !activation);
	EXPECT(handle && mode == mode_of(x->map.c));
	*bytes = 16;
	return CUDNN_STATUS_SUCCESS;
}

static int norm_at(const void *mean)
{
	int free_at = -1;

	for (int i = 0; i < NORMS; i++) {
		if (norms[i].mean == mean)
			return i;
		if (!norms[i].mean && free_at < 0)
			free_at = i;
	}
	EXPECT(free_at >= 0);
	return free_at;
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(cudnnHandle_t handle,
	cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void *alpha, const void *beta,
	cudnnTensorDescriptor_t xDesc, const void *x, cudnnTensorDescriptor_t zDesc, const void *z,
	cudnnTensorDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t values, const void *scale,
	const void *shift, double factor, void *mean, void *variance, double epsilon,
	void *save_mean, void *save_inverse, cudnnActivationDescriptor_t activation,
	void *workspace, size_t bytes, void *reserve, size_t reserve_bytes)
{
	struct ops_norm_values all = {scale, shift, mean, variance};
	int at = norm_at(save_mean);

	expect_norm(handle, mode, ops, xDesc, yDesc, values);
	EXPECT(!zDesc && !z && !activation && *(const float *)alpha == 1);
	EXPECT(*(const float *)beta == 0 && factor == OPS_NORM_MOMENTUM);
	EXPECT(epsilon == OPS_NORM_EPSILON && workspace && bytes == TRUSTED_BYTES + 1);
	EXPECT(reserve && reserve_bytes == 16 && save_mean && save_inverse);
	if (norms[at].norm)
		emulated->norm_free(emulated, norms[at].norm);
	norms[at].norm = emulated->norm_new(emulated, &xDesc->map);
	norms[at].mean = save_mean;
	norms[at].inverse = save_inverse;
	norms[at].reserve = reserve;
	emulated->norm_forward(emulated, norms[at].norm, &all, x, y);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle,
	cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
	cudnnTensorDescriptor_t xDesc, const void *x, cudnnTensorDescriptor_t yDesc, void *y,
	cudnnTensorDescriptor_t values, const void *scale, const void *shift, const void *mean,
	const void *variance, double epsilon)
{
	/* Inference only reads them. */
	struct ops_norm_values all = {scale, shift, (float *)mean, (float *)variance};
	struct norm *norm = emulated->norm_new(emulated, &xDesc->map);

	EXPECT(handle && mode == CUDNN_BATCHNORM_SPATIAL && epsilon == OPS_NORM_EPSILON);
	EXPECT(*(const float *)alpha == 1 && *(const float *)beta == 0);
	EXPECT(values->derived && same_map(xDesc, yDesc));
	emulated->norm_infer(emulated, norm, &all, x, y);
	emulated->norm_free(emulated, norm);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
	cudnnBatchNormOps_t ops, const void *alpha_data, const void *beta_data,
	const void *alpha_values, const void *beta_values, cudnnTensorDescriptor_t xDesc,
	const void *x, cudnnTensorDescriptor_t yDesc, const void *y, cudnnTensorDescriptor_t dyDesc,
	const void *dy, cudnnTensorDescriptor_t dzDesc, void *dz, cudnnTensorDescriptor_t dxDesc,
	void *dx, cudnnTensorDescriptor_t values, const void *scale, const void *shift,
	void *d_scale, void *d_shift, double epsilon, const void *save_mean,
	const void *save_inverse, cudnnActivationDescriptor_t activation, void *workspace,
	size_t bytes, void *reserve, size_t reserve_bytes)
{
	int at = norm_at(save_mean);

	expect_norm(handle, mode, ops, xDesc, dxDesc, values);
	EXPECT(!yDesc && !y && !dzDesc && !dz && !activation && !shift && dyDesc && dx != dy);
	EXPECT(*(const float *)alpha_data == 1 && *(const float *)beta_data == 0);
	EXPECT(*(const float *)alpha_values == 1 && *(const float *)beta_values == 0);
	EXPECT(epsilon == OPS_NORM_EPSILON && workspace && bytes == TRUSTED_BYTES + 2);
	EXPECT(norms[at].norm && norms[at].inverse == save_inverse);
	EXPECT(norms[at].reserve == reserve && reserve_bytes == 16);
	emulated->norm_backward(emulated, norms[at].norm, scale, x, dy, dx, d_scale, d_shift);
	return CUDNN_STATUS_SUCCESS;
}

int main(void)
{
	struct ops *device, *host = ops_cpu_open();
	unsigned failures;

	emulated = ops_emulated_open();
	device = ops_device_open(0);
	failures = self_test(device, host, stdout);
	for (int i = 0; i < ALGORITHMS; i++) {
		printf("algorithm %d was called %u times\n", i, used[i]);
		failures += (used[i] == 0) != (i == INEXACT || i == GREEDY);
	}
	device->close(device);
	for (int i = 0; i < NORMS; i++)
		if (norms[i].norm)
			emulated->norm_free(emulated, norms[i].norm);
	emulated->close(emulated);
	host->close(host);
	return failures != 0;
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
