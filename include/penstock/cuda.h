/* penstock/cuda.h: a stream's batches on a CUDA device, normalized there. Library:
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
 * A thread of the attachment takes batches from the stream, has the device copy each from the
 * daemon's memory into a buffer on the device, and gives the slot back to the daemon as soon as
 * that copy is done. penstock_cuda_next gives the oldest such buffer without waiting for its copy:
 * the CUDA stream waits for it (`ready`, or penstock_cuda_transform, which waits for it there). The
 * host waits for the device only if it is so far ahead of the device that no buffer is free.
 *
 * If the device allows it, the library registers the daemon's memory with the device and copies
 * directly from it. Otherwise the thread copies through a small ring of pinned memory
 * (penstock_cuda_info says which, and why). Few devices register pages that this process cannot
 * write to, so open the stream with penstock_options.pin_memory: its pages are then writable if no
 * other trainer can read them.
 *
 * Device memory: prefetch + 1 batches of bytes, allocated by penstock_cuda_attach, and nothing
 * after that.
 *
 * The library loads CUDA (libcuda.so.1, the driver) at run time: a program that links this library
 * also starts on a machine without a driver, and penstock_cuda_attach then reports it. It uses the
 * device's primary context, as the CUDA runtime and PyTorch do. `struct CUstream_st *` is the type
 * that they call CUstream or cudaStream_t (NULL: the legacy default stream), `struct CUevent_st *`
 * is CUevent or cudaEvent_t; device pointers are those of cudaMalloc.
 *
 * CUDA streams: wherever a function takes a stream (`queue`), the stream must exist until the call
 * returns. The driver does not check the handle: a call with the handle of a stream that was
 * destroyed is undefined. It may fail, crash, or order the batch after the wrong work.
 *
 * Threads: one thread at a time may use an attachment. Different attachments are independent, also
 * on one device. While a stream is attached, the attachment's thread may be changing it: between
 * attach and detach call nothing on the stream itself (call penstock_stream_info before). After
 * fork() the child's attachments are dead: every call on them except penstock_cuda_detach returns
 * -EBADF.
 *
 * Errors: as in penstock.h; penstock_error() is the sentence. On failure a function leaves its
 * outputs (ret_...) unchanged. */
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

/* Order in memory. To PyTorch the tensor is (batch, 3, height, width) in both cases. */
enum penstock_cuda_layout {
	/* "channels_last". */
	PENSTOCK_CUDA_NHWC = 0,
	PENSTOCK_CUDA_NCHW = 1,
};

/* How the device gets at the daemon's memory. */
enum penstock_cuda_memory {
	/* Registered if the device can, otherwise the ring. */
	PENSTOCK_CUDA_AUTO = 0,
	/* Registered; fail if the device cannot. */
	PENSTOCK_CUDA_REGISTERED = 1,
	/* The ring of pinned memory. */
	PENSTOCK_CUDA_RING = 2,
};

/* What to do. penstock_cuda_options_init sets the defaults that are named here. */
struct penstock_cuda_options {
	/* Size of this struct, set by penstock_cuda_options_init. */
	size_t size;
	/* Default: -1, LOCAL_RANK of the environment, otherwise 0. The device's ordinal. */
	int32_t device;
	/* Default: 2. Batches on the device or on their way there, in addition to one that the
	 * trainer holds. 1 to 64. */
	uint32_t prefetch;
	/* Default: AUTO. enum penstock_cuda_memory. */
	uint32_t memory;
	/* What penstock_cuda_transform writes: (x / 255 - mean) / std, rounded as torchvision's
	 * ToTensor and Normalize round it in float32, and once more to a shorter dtype. */

	/* Default: FLOAT32. */
	uint32_t dtype;
	/* Default: NHWC. */
	uint32_t layout;
	/* Default: ImageNet's, 0.485 0.456 0.406 and 0.229 0.224 0.225. */
	float mean[3], std[3];
	/* Augmentation on the device, off by default, in this order: flip, normalize, erase, mix.
	 * The random draws follow from the stream's seed, the epoch and the position of the sample
	 * (for mixing, of the batch's first sample), so they are the same whenever and wherever a
	 * run is resumed. Mixing pairs samples within the batch and therefore depends on batch size
	 * and world size. */

	/* Default: 0. Probability of mirroring left to right, in addition to what the daemon
	 * did. */
	double flip;
	/* Default: 0. Probability of RandomErasing, as torchvision's. */
	double erase;
	/* Default: 0.02 0.33 of the area; 0.3 3.3, height to width. */
	double erase_scale[2], erase_ratio[2];
	/* Default: 0 0 0. Per channel, after normalizing. */
	float erase_value[3];
	/* Default: 0. 1: standard normal noise in place of erase_value. */
	int32_t erase_random;
	/* Default: 0, off. Alpha of their Beta distributions, 0.01 to 100. */
	double mixup, cutmix;
	/* Default: 1. Probability that a batch is mixed at all. */
	double mix;
	/* Default: 0.5. If both are on: probability of CutMix. */
	double mix_switch;
	/* Where device memory comes from. NULL: the driver (cuMemAlloc). Otherwise functions of a
	 * framework's caching allocator, which the library calls in the thread that attaches and
	 * detaches, with the device's context current. `allocate` returns device memory of the
	 * attachment's device aligned to 256 bytes, or 0. Set both or neither. */
	void *(*allocate)(void *context, size_t bytes);
	void (*release)(void *context, void *memory, size_t bytes);
	/* Passed to both. */
	void *allocate_context;
	/* NULL, or a function that the library calls while penstock_cuda_next waits for a batch: in
	 * the thread that called, at most ten times a second. A result other than 0 ends the wait
	 * with -EINTR. It must not call the library. */
	int (*interrupt)(void *data);
	/* Passed to `interrupt`. */
	void *interrupt_data;
	/* Default: NULL. What changes with the epoch, as in struct penstock_mix_options, and copied
	 * by penstock_cuda_attach. Their `smoothing` has no effect: penstock_cuda_targets has its
	 * own. */
	const struct penstock_mix_epoch *epochs;
	size_t epoch_count;
};

/* Sets all defaults, and `size` as given: the size of the struct that the application was compiled
 * with. Never fails. */
PENSTOCK_API void penstock_cuda_options_init_size(
	struct penstock_cuda_options *options, size_t size);
#define penstock_cuda_options_init(options) \
	penstock_cuda_options_init_size((options), sizeof *(options))

/* penstock_cuda_row.flags. */
enum { PENSTOCK_CUDA_ROW_FLIPPED = 1, PENSTOCK_CUDA_ROW_ERASED = 2, PENSTOCK_CUDA_ROW_MIXED = 4 };

/* What is done to one row on the device; 64 bytes. Rectangles are in pixels of the output. The
 * mixed label is weight x labels[row] + partner_weight x labels[partner]. */
struct penstock_cuda_row {
	/* Of the sample in its epoch's order. */
	uint64_t position;
	/* PENSTOCK_CUDA_ROW_FLIPPED ... */
	uint32_t flags;
	/* Its low 32 bits; with the position the key of this row's noise. */
	uint32_t epoch;
	uint16_t erase_x, erase_y, erase_w, erase_h;
	/* CutMix: the rectangle that is the partner's. MixUp: empty. */
	uint16_t cut_x, cut_y, cut_w, cut_h;
	/* The row that is mixed in; the row itself if nothing is. */
	uint32_t partner;
	/* MixUp: weights of the pixels; otherwise 1 and 0. */
	float blend, partner_blend;
	/* Weights of the labels; 1 and 0 if nothing is mixed. */
	float weight, partner_weight;
	uint32_t reserved[3];
};

/* penstock_cuda_batch.payload. Later releases may know streams of compressed images, for which an
 * application will have to ask. */
enum { PENSTOCK_CUDA_PIXELS = 1 };

/* A batch on the device. The pointers are valid until the batch is released. */
struct penstock_cuda_batch {
	/* On the device: uint8, shape (batch_size, height, width, 3), as they came; rows from
	 * `count` on are unspecified. */
	const void *images;
	/* On the device: shape (batch_size,). */
	const int64_t *labels;
	/* On the device: shape (batch_size,). */
	const struct penstock_cuda_row *rows;
	/* To wait for before any of these is read, unless penstock_cuda_transform or
	 * penstock_cuda_wait did so in the same CUDA stream. */
	struct CUevent_st *ready;
	/* On the host, as they came: the same labels, the samples and the rows. */
	const int64_t *host_labels;
	const struct penstock_sample *samples;
	const struct penstock_cuda_row *host_rows;
	/* PENSTOCK_CUDA_PIXELS. */
	uint32_t payload;
	/* Valid rows; PENSTOCK_LAST. */
	uint32_t count, flags;
	/* The batch's name. */
	uint64_t epoch, batch;
	/* The library's own. */
	uint32_t buffer, reserved;
	uint64_t serial;
};

struct penstock_cuda;

/* Attaches an open stream to a device. On success *ret_cuda is the caller's, who detaches it with
 * penstock_cuda_detach(); on failure the stream is unchanged and still the caller's. Blocks while
 * the driver makes a context (seconds, the first time in a process).
 *
 * Returns 0, or a negative errno:
 *   -ENODEV   no driver, or no such device
 *   -ENOTSUP  the driver or the device is too old for this library's kernels (the sentence names
 *             the versions); or the memory cannot be registered although that was asked for; or the
 *             stream's batches are not uint8 NHWC with one view and one integer label for each
 *             sample, all of one size. (The size may change with the epoch; this shows at the first
 *             batch of another size, for which penstock_cuda_next returns -ENOTSUP.)
 *   -ENOMEM   device memory or pinned memory (the sentence says how much is needed and is free)
 *   -EINVAL   an option or LOCAL_RANK is wrong (named)
 *   -EBUSY    the stream is attached already
 *   -EIO      the device failed */
PENSTOCK_API int penstock_cuda_attach(struct penstock_stream *stream,
	const struct penstock_cuda_options *options, struct penstock_cuda **ret_cuda);

/* Waits until the device no longer uses the attachment's memory, gives all slots back and frees
 * everything. Batches that were prefetched and not given are lost to the stream, whose own state is
 * ahead: call penstock_cuda_state before, and close the stream afterward. NULL is allowed. */
PENSTOCK_API void penstock_cuda_detach(struct penstock_cuda *cuda);

/* The same, but waits at most `timeout_ms` for the device. For handlers at the end of a process: a
 * CUDA stream that a collective blocks, because another rank has died, never finishes, and
 * penstock_cuda_detach would wait for it forever. Detach what is attached before main() returns: at
 * exit the driver shuts down, and the attachment's thread is still using it. Detaches in a thread
 * of its own, in which options.release is called.
 *
 * Returns 0; or a negative errno, with the attachment still attached:
 *   -ETIMEDOUT  the device has not finished. The thread goes on detaching, so call nothing on the
 *               attachment or its stream any more, and end the process
 *   -EINVAL     timeout_ms is negative
 *   -ENOMEM, -EAGAIN  no memory, or no thread: nothing has happened */
PENSTOCK_API int penstock_cuda_detach_within(struct penstock_cuda *cuda, int32_t timeout_ms);

/* The next batch. The caller holds it until penstock_cuda_release(). Blocks up to `timeout_ms` for
 * the daemon, as penstock_stream_next does; for the device only if the CUDA streams with which
 * batches were released are so far behind that the copy of no buffer has finished.
 *
 * Returns 0; PENSTOCK_END; or a negative errno. After these the attachment goes on:
 *   -EAGAIN, -ETIMEDOUT  no batch yet (the sentence says whether it waits for daemon or device)
 *   -EDEADLK             this trainer holds prefetch + 1 batches
 *   -EINTR               options.interrupt, or the stream's, asked for it
 *
 * After these the attachment is over and has given its slots back:
 *   -EIO, -ENOTSUP, -ENOMEM  the device failed; or it refuses the daemon's memory, which shows with
 *                            the first batch
 *   -ECANCELED               the daemon overwrote a batch while it was being copied
 *   the errors of penstock_stream_next that end a stream, after all batches that had reached the
 *   device */
PENSTOCK_API int penstock_cuda_next(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *ret_batch, int32_t timeout_ms);

/* Makes `queue` wait for the batch and write it, normalized and augmented as the options say, to
 * `out`: device memory of the caller for batch_size rows (penstock_cuda_info.output_bytes), aligned
 * to 16 bytes. Rows from `count` on are left as they are. Returns at once. May be called again,
 * also in another queue. Returns 0; -EINVAL the batch is not held, `out` is NULL or not aligned, or
 * `queue` does not belong to the device or is being captured into a graph; -EIO the device
 * failed. */
PENSTOCK_API int penstock_cuda_transform(struct penstock_cuda *cuda,
	const struct penstock_cuda_batch *batch, void *out, struct CUstream_st *queue);

/* Makes `queue` wait for the batch before everything that is given to it afterward: copies of
 * `images` and `labels`, the application's own kernels. Returns at once. Returns 0; -EINVAL as for
 * penstock_cuda_transform; -EIO the device failed. */
PENSTOCK_API int penstock_cuda_wait(struct penstock_cuda *cuda,
	const struct penstock_cuda_batch *batch, struct CUstream_st *queue);

/* Makes `queue` wait for the batch and write its labels to `out` as distributions over `classes`,
 * mixed as the images are: float32, shape (batch_size, classes), device memory of the caller. Each
 * label has 1 - smoothing plus its share of `smoothing`, which is spread evenly (as in
 * torch.nn.CrossEntropyLoss). A label that is not a class (-1: unlabeled) leaves its share 0.
 * Returns at once. Returns 0; -EINVAL as for penstock_cuda_transform; -EIO the device failed. */
PENSTOCK_API int penstock_cuda_targets(struct penstock_cuda *cuda,
	const struct penstock_cuda_batch *batch, uint32_t classes, float smoothing, float *out,
	struct CUstream_st *queue);

/* Gives a batch back. Its device memory is used again after the work that `queue` has been given so
 * far. Its pointers are invalid from then on and are set to NULL. Does not block. Returns 0;
 * -EINVAL the batch is not held, or it stays held because `queue` does not belong to the device or
 * is being captured into a graph; -EIO the device failed. */
PENSTOCK_API int penstock_cuda_release(
	struct penstock_cuda *cuda, struct penstock_cuda_batch *batch, struct CUstream_st *queue);

/* The loop's position, as penstock_stream_state gives it: after the last batch that
 * penstock_cuda_next gave, whatever was prefetched. Before the first: where the stream was when it
 * was attached. Does not block. */
PENSTOCK_API int penstock_cuda_state(const struct penstock_cuda *cuda, char *buffer, size_t room);

/* As penstock_stream_path, _samples and _stats, while attached: they block for one round trip,
 * and the caller frees the text. The statistics also have a key "device": an object with "verdict",
 * a sentence that says what the trainer waits for, and "batches", "waited_daemon_ns",
 * "waited_device_ns" and "stalled_ns" as in penstock_cuda_counters. */
PENSTOCK_API int penstock_cuda_path(struct penstock_cuda *cuda, uint64_t index, char **ret_path);
PENSTOCK_API int penstock_cuda_samples(
	struct penstock_cuda *cuda, uint64_t first, char **ret_lines);
PENSTOCK_API int penstock_cuda_stats(struct penstock_cuda *cuda, char **ret_json);

struct penstock_cuda_info {
	/* Size of this struct, set by the caller before the call. */
	size_t size;
	/* Ordinal; version of CUDA that the driver knows, 12040 for 12.4. */
	int32_t device, driver;
	/* 90 for 9.0. */
	uint32_t capability;
	/* The way in use: PENSTOCK_CUDA_REGISTERED or PENSTOCK_CUDA_RING. */
	uint32_t memory;
	/* Batches that have room on the device: prefetch + 1. */
	uint32_t buffers;
	uint32_t reserved;
	/* Allocated by the attachment; pinned memory is on the host. */
	uint64_t device_bytes, pinned_bytes;
	/* Of what penstock_cuda_transform writes. */
	uint64_t output_bytes;
	/* Of the device. */
	char name[128];
	/* Why the memory is used in this way: a sentence. */
	char why[256];
};

struct penstock_cuda_counters {
	/* Size of this struct, set by the caller before the call. */
	size_t size;
	/* Given by penstock_cuda_next; bytes copied to the device. */
	uint64_t batches, images, bytes;
	/* Time in penstock_cuda_next, waiting for a batch: the sum of waited_daemon_ns and
	 * waited_device_ns. */
	uint64_t waited_ns;
	/* Time that CUDA streams given to penstock_cuda_transform waited for a copy, as far as the
	 * device has come. */
	uint64_t stalled_ns;
	/* The part of waited_ns in which a buffer was free and the daemon had no batch: near 0 if
	 * the daemon is fast enough. */
	uint64_t waited_daemon_ns;
	/* The rest: the device had not finished with earlier batches, so that no buffer was free.
	 * Large in a trainer that is bound by its GPU, whose host is ahead; it costs nothing. */
	uint64_t waited_device_ns;
};

/* What is attached, and what has been done. Both write at most as much as `size` says, and do not
 * block. Returns 0; -EINVAL if `size` is 0. Struct and function have one name, as with
 * penstock_stream_info: in C++ write `struct penstock_cuda_info`. */
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
