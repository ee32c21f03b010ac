/* penstock/cuda.h: a stream's batches on a CUDA device, normalised there. Library:
 * libpenstock_cuda.
 *
 * The life of an attachment
 * -------------------------
 *   struct penstock_cuda_options options;
 *   penstock_cuda_options_init(&options);
 *   options.dtype = PENSTOCK_CUDA_FLOAT16;
 *
 *   struct penstock_cuda *cuda; // of a stream that is open, see penstock.h
 *   if (penstock_cuda_attach(stream, &options, &cuda) < 0)
 *           fail(penstock_error());
 *   struct penstock_cuda_batch batch;
 *   int r;
 *   while ((r = penstock_cuda_next(cuda, &batch, PENSTOCK_TIMEOUT_DEFAULT)) == 0) {
 *           penstock_cuda_transform(cuda, &batch, tensor, queue); // your memory, your CUDA stream
 *           penstock_cuda_release(cuda, &batch, queue); // when `queue` has come so far
 *           train_on(tensor, queue);
 *   }
 *   if (r < 0)
 *           fail(penstock_error());
 *   penstock_cuda_detach(cuda);
 *   penstock_stream_close(stream);
 *
 * What happens meanwhile: a thread of the attachment takes batches from the stream, has the device
 * copy each from the daemon's memory into a buffer on the device, and gives the slot back to the
 * daemon as soon as that copy is done. `next` gives the oldest such buffer, without waiting for its
 * copy: that is left to the CUDA stream (`ready`, or penstock_cuda_transform, which waits for it
 * there). The host waits for the device only when it is that far ahead of it that no buffer is
 * free.
 *
 * Where the device allows it, the daemon's memory is registered with it and copied from directly;
 * elsewhere the thread copies through a small ring of pinned memory (penstock_cuda_info says which,
 * and why). Few devices register pages that this process could not write to, so open the stream
 * with penstock_options.pin_memory: then its pages can be written to, where nobody else reads them.
 *
 * Device memory: prefetch + 1 batches of bytes, allocated when attaching, and nothing after that.
 *
 * CUDA itself is looked up at run time (libcuda.so.1, the driver): a program that links this
 * library starts on a machine without one, and is told by penstock_cuda_attach. It uses the
 * device's primary context, which is that of the CUDA runtime and of PyTorch. `struct CUstream_st
 * *` is what they call CUstream or cudaStream_t (NULL: the legacy default stream), `struct
 * CUevent_st *` CUevent or cudaEvent_t; device pointers are those of cudaMalloc.
 *
 * Threads: an attachment may be used by one thread at a time. Different attachments are
 * independent, also on one device. While attached the stream is the attachment's, whose thread may
 * be changing it: between attach and detach nothing may be called on it (penstock_stream_info:
 * before). After fork() the child's attachments are dead: every call on them but
 * penstock_cuda_detach returns -EBADF.
 *
 * Errors: as of penstock.h, penstock_error() is the sentence. */
#ifndef PENSTOCK_CUDA_H
#define PENSTOCK_CUDA_H

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct CUevent_st;

enum penstock_cuda_dtype {
	PENSTOCK_CUDA_FLOAT32 = 0,
	PENSTOCK_CUDA_FLOAT16 = 1,
	PENSTOCK_CUDA_BFLOAT16 = 2,
};

/* Order in memory; the tensor is (batch, 3, height, width) to PyTorch in both. */
enum penstock_cuda_layout {
	PENSTOCK_CUDA_NHWC = 0, /* "channels_last" */
	PENSTOCK_CUDA_NCHW = 1,
};

enum penstock_cuda_memory {
	PENSTOCK_CUDA_AUTO = 0, /* registered where the device can, else the ring */
	PENSTOCK_CUDA_REGISTERED = 1, /* or fail */
	PENSTOCK_CUDA_RING = 2,
};

/* What to do. penstock_cuda_options_init sets the defaults named here. */
struct penstock_cuda_options {
	size_t size; /* of this struct, set by penstock_cuda_options_init */
	int32_t device; /* ordinal; -1 (default): LOCAL_RANK of the environment, else 0 */
	uint32_t prefetch; /* 2; batches on the device, or on their way there, beside one that the
			      trainer holds. 1 to 64 */
	uint32_t memory; /* enum penstock_cuda_memory. AUTO */
	/* What penstock_cuda_transform writes: (x / 255 - mean) / std, rounded as torchvision's
	 * ToTensor and Normalize round it in float32, and once more to a shorter dtype. */
	uint32_t dtype; /* FLOAT32 */
	uint32_t layout; /* NHWC */
	float mean[3], std[3]; /* ImageNet's: 0.485 0.456 0.406, 0.229 0.224 0.225 */
	/* Augmentation on the device, off by default. Drawn from the stream's seed, the epoch and
	 * the position of the sample (of the batch's first sample for mixing), so that it is the
	 * same whenever and wherever a run goes on; mixing pairs within the batch and so depends on
	 * batch size and world size. In this order: flip, normalise, erase, mix. */
	double flip; /* 0; probability of mirroring left to right, besides what the daemon did */
	double erase; /* 0; probability of RandomErasing, as torchvision's */
	double erase_scale[2], erase_ratio[2]; /* 0.02 0.33, 0.3 3.3; of the area; height : width */
	float erase_value[3]; /* 0 0 0; per channel, after normalising */
	int32_t erase_random; /* 0; 1: standard normal noise in place of erase_value */
	double mixup, cutmix; /* 0: off; alpha of their Beta distributions, 0.01 to 100 */
	double mix; /* 1; probability that a batch is mixed at all */
	double mix_switch; /* 0.5; where both are on: probability of CutMix */
	/* Where device memory comes from: NULL for the driver's own (cuMemAlloc). Otherwise called
	 * in the thread that attaches and detaches, with the device's context current: `allocate`
	 * returns device memory of the attachment's device aligned to 256 bytes, or 0; for a
	 * framework's caching allocator. Both or neither. */
	void *(*allocate)(void *context, size_t bytes);
	void (*release)(void *context, void *memory, size_t bytes);
	void *allocate_context;
	/* NULL, or called at most ten times a second, in the thread that called, while
	 * penstock_cuda_next waits for a batch: other than 0 ends that with -EINTR. May not call
	 * the library. */
	int (*interrupt)(void *data);
	void *interrupt_data;
};

/* Sets all defaults, and `size` as given: that of the struct which the application was compiled
 * with. */
PENSTOCK_API void penstock_cuda_options_init_size(
	struct penstock_cuda_options *options, size_t size);
#define penstock_cuda_options_init(options) \
	penstock_cuda_options_init_size((options), sizeof *(options))

enum { PENSTOCK_CUDA_ROW_FLIPPED = 1, PENSTOCK_CUDA_ROW_ERASED = 2, PENSTOCK_CUDA_ROW_MIXED = 4 };

/* What is done to one row on the device; 64 bytes. Rectangles are in pixels of the output. The
 * mixed label is weight x labels[row] + partner_weight x labels[partner]. */
struct penstock_cuda_row {
	uint64_t position; /* of the sample in its epoch's order */
	uint32_t flags; /* PENSTOCK_CUDA_ROW_FLIPPED ... */
	uint32_t epoch; /* its low 32 bits, with the position the key of this row's noise */
	uint16_t erase_x, erase_y, erase_w, erase_h;
	uint16_t cut_x, cut_y, cut_w, cut_h; /* CutMix: what is the partner's; MixUp: nothing */
	uint32_t partner; /* row that is mixed in; itself where nothing is */
	float blend, partner_blend; /* MixUp: of the pixels; 1 and 0 otherwise */
	float weight, partner_weight; /* of the labels; 1 and 0 where nothing is mixed */
	uint32_t reserved[3];
};

enum { PENSTOCK_CUDA_PIXELS = 1 };

struct penstock_cuda_batch {
	/* on the device */
	const void *images; /* uint8, shape (batch_size, height, width, 3), as they came; rows from
			       `count` on are unspecified */
	const int64_t *labels; /* shape (batch_size,) */
	const struct penstock_cuda_row *rows; /* shape (batch_size,) */
	struct CUevent_st *ready; /* to wait for before any of these is read, unless it was through
				     penstock_cuda_transform or penstock_cuda_wait in the same CUDA
				     stream */
	/* on the host, as they came */
	const int64_t *host_labels;
	const struct penstock_sample *samples;
	const struct penstock_cuda_row *host_rows;
	uint32_t payload; /* PENSTOCK_CUDA_PIXELS; later releases may know streams of compressed
			     images, which have to be asked for */
	uint32_t count, flags; /* valid rows; PENSTOCK_LAST */
	uint64_t epoch, batch; /* its name */
	/* the library's own */
	uint32_t buffer, reserved;
	uint64_t serial;
};

struct penstock_cuda;

/* Attaches an open stream to a device. Blocks for what a context takes to make (seconds, the first
 * time in a process). On failure the stream is the caller's and untouched. 0, or a negative errno:
 * -ENODEV no driver or no such device, -ENOTSUP a driver or a device that this library's kernels
 * are too new for (says which versions), or memory that cannot be registered although that was
 * asked for, or a stream whose batches are not uint8 NHWC with one view and one whole label each
 * (whose size does not change with the epoch, which the first batch of another size tells: next
 * gives -ENOTSUP), -ENOMEM device or pinned memory (says how much was wanted and is free), -EINVAL
 * an option or LOCAL_RANK (named), -EBUSY the stream is attached already, -EIO the device failed.
 */
PENSTOCK_API int penstock_cuda_attach(struct penstock_stream *stream,
	const struct penstock_cuda_options *options, struct penstock_cuda **ret_cuda);

/* Waits for what the device still does with the attachment's memory, gives all slots back and frees
 * everything. What was prefetched and not given is lost to the stream, whose own state is ahead:
 * ask for penstock_cuda_state before, and close the stream after. NULL is allowed. */
PENSTOCK_API void penstock_cuda_detach(struct penstock_cuda *cuda);

/* The next batch. Waits up to `timeout_ms` as penstock_stream_next does, for the daemon; for the
 * device only where the CUDA streams that batches were released with are so far behind that no
 * buffer's copy has come through yet. 0; PENSTOCK_END; -EAGAIN, -ETIMEDOUT (says which of the two
 * it is) and the ends of a stream as of penstock_stream_next, the latter after all batches that had
 * reached the device; -EDEADLK this trainer holds prefetch + 1 batches; -ECANCELED besides when the
 * daemon overwrote a batch while it was copied; -EIO the device failed (-ENOTSUP, -ENOMEM: it
 * refuses the daemon's memory, which is seen with the first batch): the attachment is over, its
 * slots have been given back. -EINTR options.interrupt says so, or the stream's: the attachment
 * goes on. */
PENSTOCK_API int penstock_cuda_next(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *ret_batch, int32_t timeout_ms);

/* Has `queue` wait for the batch and write it, normalised and augmented as the options say, to
 * `out`: device memory for batch_size rows (penstock_cuda_info.output_bytes), aligned to 16 bytes;
 * rows from `count` on are left as they are. Returns at once. May be called again, also in another
 * queue. 0; -EINVAL the batch is not held, `out` is NULL or not aligned, or `queue` is none of the
 * device or is being captured into a graph; -EIO. */
PENSTOCK_API int penstock_cuda_transform(struct penstock_cuda *cuda,
	const struct penstock_cuda_batch *batch, void *out, struct CUstream_st *queue);

/* Has `queue` wait for the batch, for whatever is given to it afterwards: copies of `images` and
 * `labels`, the application's own kernels. Returns at once. 0; -EINVAL as of
 * penstock_cuda_transform; -EIO. */
PENSTOCK_API int penstock_cuda_wait(struct penstock_cuda *cuda,
	const struct penstock_cuda_batch *batch, struct CUstream_st *queue);

/* Has `queue` wait for the batch and write its labels as distributions over `classes`, mixed as the
 * images are: float32, shape (batch_size, classes), device memory. Each label has 1 - smoothing
 * plus its share of `smoothing`, which is spread evenly (as of torch.nn.CrossEntropyLoss). A label
 * that is no class (-1: unlabelled) leaves its share 0. 0; -EINVAL; -EIO. */
PENSTOCK_API int penstock_cuda_targets(struct penstock_cuda *cuda,
	const struct penstock_cuda_batch *batch, uint32_t classes, float smoothing, float *out,
	struct CUstream_st *queue);

/* Gives a batch back: its device memory is used again after what `queue` has been given so far. Its
 * pointers are dead from here on and are set to NULL. 0; -EINVAL it is not held, or it stays so
 * because `queue` is none of the device or is being captured into a graph; -EIO. */
PENSTOCK_API int penstock_cuda_release(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *batch, struct CUstream_st *queue);

/* Where the loop is, as penstock_stream_state says it: after the last batch that penstock_cuda_next
 * gave, whatever was prefetched. Before the first: where the stream was when it was attached. */
PENSTOCK_API int penstock_cuda_state(const struct penstock_cuda *cuda, char *buffer, size_t room);

/* As penstock_stream_path and penstock_stream_stats, while attached. */
PENSTOCK_API int penstock_cuda_path(struct penstock_cuda *cuda, uint64_t index, char **ret_path);
PENSTOCK_API int penstock_cuda_stats(struct penstock_cuda *cuda, char **ret_json);

struct penstock_cuda_info {
	size_t size; /* of this struct, set by the caller before asking */
	int32_t device, driver; /* ordinal; version of CUDA that the driver knows, 12040 for 12.4 */
	uint32_t capability; /* 90 for 9.0 */
	uint32_t memory; /* PENSTOCK_CUDA_REGISTERED or PENSTOCK_CUDA_RING, as it is used */
	uint32_t buffers; /* batches that have room on the device: prefetch + 1 */
	uint32_t reserved;
	uint64_t device_bytes, pinned_bytes; /* that the attachment has allocated; pinned: host */
	uint64_t output_bytes; /* of what penstock_cuda_transform writes */
	char name[128]; /* of the device */
	char why[256]; /* why the memory is used as it is: a sentence */
};

struct penstock_cuda_counters {
	size_t size; /* of this struct, set by the caller before asking */
	uint64_t batches, images, bytes; /* given by next; copied to the device */
	uint64_t waited_ns; /* in penstock_cuda_next, for a batch */
	uint64_t stalled_ns; /* that CUDA streams given to transform stood waiting for a copy, as
				far as the device has come */
};

/* Both write at most as much as `size` says. -EINVAL where it is 0. As of penstock_stream_info, in
 * C++ write `struct penstock_cuda_info`: struct and function have one name. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
PENSTOCK_API int penstock_cuda_info(
	const struct penstock_cuda *cuda, struct penstock_cuda_info *ret_info);
PENSTOCK_API int penstock_cuda_counters(
	struct penstock_cuda *cuda, struct penstock_cuda_counters *ret_counters);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#ifdef __cplusplus
}
#endif
#endif
