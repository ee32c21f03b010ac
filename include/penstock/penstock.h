/* penstock.h: the C client of the penstock data loader.
 *
 * The life of a stream
 * --------------------
 *   struct penstock_options options;
 *   penstock_options_init(&options);
 *   options.source = "train-{000000..000146}.tar";   // or a folder, a tar, a glob, "stream:NAME"
 *   options.batch_size = 256;
 *
 *   struct penstock_stream *stream;
 *   if (penstock_stream_open(&options, &stream) < 0)
 *           fail(penstock_error());
 *   struct penstock_batch batch;
 *   int r;
 *   while ((r = penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT)) == 0) {
 *           train_on(batch.images, batch.labels, batch.count);  // shared memory, not copied
 *           penstock_batch_release(stream, &batch);             // may now be overwritten
 *   }
 *   if (r < 0)
 *           fail(penstock_error()); // PENSTOCK_END, above 0, is the end of the last epoch
 *   penstock_stream_close(stream);
 *
 * Opening connects to the running daemon, or starts a private one (it ends ten seconds after its
 * last client). Where the environment names a job (PENSTOCK_JOB, torchrun's, Slurm's, MASTER_ADDR
 * and MASTER_PORT) and nothing names a socket, the private one is that job's: it listens in a
 * folder of the job's own, all processes of the job on this machine find it, and other jobs have
 * theirs. Otherwise it listens at the user's socket: streams opened meanwhile are its too, and a
 * penstockd that is started there by hand refuses, because of another penstockd. daemon_memory and
 * daemon_threads are those of whoever starts it. A batch's memory is read-only and valid from
 * penstock_stream_next() to penstock_batch_release() or penstock_stream_close(), whichever comes
 * first. Up to penstock_stream_info.slots batches exist at once: a trainer that holds them all and
 * asks for another gets -EDEADLK instead of waiting for itself.
 *
 * Several trainers can read one stream together (options.share): all of them every batch, or each
 * rank its slice of every global batch. A stream can outlive its daemon (options.reconnect_ms): it
 * goes on with the batch that comes next, none lost and none given twice, and what the application
 * holds stays where it is.
 *
 * The stream is endless unless options.epochs says otherwise: batches carry their epoch, and
 * PENSTOCK_LAST marks the last of each.
 *
 * Threads: a stream may be used by one thread at a time. Different streams are independent.
 * penstock_error() is per thread. After fork() the child's streams are dead: every call on them but
 * penstock_stream_close() returns -EBADF.
 *
 * Errors: 0 or a positive documented outcome; a negative errno is a failure and penstock_error() is
 * a sentence about it that says what to do. No function exits, prints, raises a signal or changes a
 * signal's handling. */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_API __attribute__((visibility("default")))

/* Release of the library, "0.1.0". */
PENSTOCK_API const char *penstock_version(void);

/* The last failure of this thread: one sentence, "" if there was none; without memory for it, one
 * that says that. Valid until the thread's next call into penstock. */
PENSTOCK_API const char *penstock_error(void);

/* Sets what penstock_error() says in this thread: for libraries that are built on this one and fail
 * on their own account. Cut at the length that sentences may have; control characters become
 * spaces. */
PENSTOCK_API void penstock_error_set(const char *sentence);

enum { PENSTOCK_TIMEOUT_DEFAULT = -1, PENSTOCK_FOREVER = -2 };

/* What to open. Unset values (0, NULL) mean the default named here. */
struct penstock_options {
	size_t size; /* of this struct, set by penstock_options_init */
	const char *source; /* folder, tar, glob, brace range, or "stream:NAME" of the daemon's
			       configuration, beside which stays unset what it defines there */
	const char *socket; /* NULL: PENSTOCK_SOCKET, else the user's runtime folder, in which a
			       job may have a folder of its own */
	uint32_t batch_size; /* 64; samples per batch and rank */
	uint32_t image_size; /* 224; height and width in pixels */
	int32_t train; /* 1: RandomResizedCrop + flip, shuffled, last short batch dropped; 0: Resize
			  + CenterCrop, in order, last batch short. Default 1 */
	int32_t shuffle; /* -1: as train implies; 0; 1 */
	int32_t drop_last; /* -1: as train implies; 0; 1 */
	uint64_t seed; /* 0 */
	uint64_t epochs; /* 0: endless; otherwise penstock_stream_next returns PENSTOCK_END after so
			    many */
	uint32_t prefetch; /* 0: the daemon's default (4): slots, i.e. batches that may exist at
			      once */
	const char *labels; /* NULL: "auto"; "none", "folder", "cls", "json"; or, beginning with
			       '{', a JSON mapping: `{"manifest": "labels.csv", "type":
			       "multi_hot"}`. penstock.yaml(5), labels */
	const char *on_broken; /* NULL: "substitute" in training, "mark" in evaluation; "fail" */
	double max_broken; /* 0: 0.01; share of an epoch's samples that may be broken before the
			      stream ends */
	const char *group; /* all who name the same group read together, see `share`. NULL: all who
			      open the same "stream:NAME", and otherwise a stream of one's own;
			      where `share` is given with another source, a name made of the job's
			      (PENSTOCK_JOB, TORCHELASTIC_RUN_ID, SLURM_JOB_ID, MASTER_ADDR and
			      MASTER_PORT, else this process), of the stream's definition, and of
			      how many such streams this process has opened: ranks have to open
			      theirs in the same order */
	uint32_t wait_for; /* 0: 1; trainers (or ranks, at most world_size) that a group waits for
			      before its first batch; each daemon counts its own. Above 1 there
			      must be a group that they find: `group`, or with `share` a
			      variable that names the job */
	const char
		*state; /* NULL: from the beginning; otherwise the JSON of penstock_stream_state */
	int32_t timeout_ms; /* 0: 120,000; default of penstock_stream_next; PENSTOCK_FOREVER */
	int32_t private_daemon; /* 1 (default): start a daemon when none runs; 0: fail with
				   -ECONNREFUSED */
	const char *daemon_memory; /* for a daemon started here: "4G"; NULL: its default. Ignored
				      when one runs already */
	uint32_t daemon_threads; /* for a daemon started here; 0: its default. Ignored when one runs
				    already */
	const char *decode; /* NULL: "exact", Pillow's bytes; "fast": from fewer outputs of each
			       block where the crop is at least twice the row */
	const char *interpolation; /* NULL: "bilinear"; or "bicubic", "box", "hamming", "lanczos",
				      "nearest": the filter of the resize, as Pillow's */
	const char *share; /* NULL: "all", or as the configuration has "stream:NAME". What a group
			   shares: "all", every trainer gets every batch; "split", each gets its
			   rank's slice of every global batch of world_size x batch_size samples */
	uint32_t rank, world_size; /* for "split"; both unset, and `share` "split" here: RANK and
				      WORLD_SIZE of the environment, as torchrun sets them */
	const char *laggard; /* NULL: "block", whoever keeps its batches holds up its group;
				"detach": it is detached after laggard_timeout_s, with -ECANCELED */
	uint32_t laggard_timeout_s; /* 0: 60 */
	int32_t reconnect_ms; /* 0: a daemon that is gone ends the stream. Otherwise
				 penstock_stream_next looks so long for another one (starting a
				 private one, if private_daemon, which "stream:NAME" never has
				 started: it would have no configuration), and goes on with the next
				 batch; and penstock_stream_open starts a private one again that
				 dies while it opens the stream. PENSTOCK_FOREVER */
	int32_t pin_memory; /* 1: the batches' memory is to be registered with a device
			       (penstock/cuda.h): most let this process do so only where it could
			       write to it, so that where nobody else reads the stream (no `group`
			       nor "stream:NAME", or `share` "split") the daemon leaves it
			       writable. penstock_batch.images stays a read-only mapping */
	const char *transforms; /* NULL: as `train` implies; otherwise what is done to each image,
				   as a JSON list of objects with one member each, torchvision's
				   name and parameters: `[{"RandomResizedCrop": {"size": 176}},
				   {"RandomHorizontalFlip": {"p": 0.5}}]`. penstock.yaml(5),
				   TRANSFORMS, has them all. It says size and filter: image_size
				   and interpolation stay unset */
	const char *indices; /* NULL: all samples; otherwise the path of a .npy file of integers,
				one dimension: the samples that an epoch consists of, in this order
				or (`shuffle`) in a shuffled one. Must be there as long as the
				stream is open */
	uint32_t restarts; /* 0: without limit; with reconnect_ms: how many private daemons are
			      started by this stream, over its life, in the place of one that
			      died; those that others started do not count. When it has had as
			      many, and nobody else's is there, the stream ends (-EPIPE) */
	int (*interrupt)(void *data); /* NULL, or called at most ten times a second, and when a
					 signal was handled, in the thread that called, while
					 opening, asking and waiting block: other than 0 ends that
					 with -EINTR. May not call the library. An open that is
					 ended leaves nothing behind (a daemon that it was starting
					 ends by itself); a stream goes on, and what was asked may
					 be asked again */
	void *interrupt_data;
	/* What follows is penstock.yaml(5)'s too, which says more of each. Paths are made absolute
	 * here; texts of JSON are the values as they stand there. */
	const char *image_sizes; /* NULL; or, in the place of image_size, the side from an epoch on,
				    as a JSON mapping: `{"0": 128, "16": 192}`. Batches then have
				    the height and width of their epoch */
	const char *sources; /* NULL; or, in the place of `source`, several datasets and how often
				each is drawn from, as a JSON list:
				`[{"source": "a", "weight": 3}, {"source": "b", "weight": 1}]` */
	const char *split; /* NULL: all samples; "train[:90%]": a part of them, always the same */
	const char *weights; /* NULL; "balanced", each class as often as the others; or the path of
				a .npy file with one float for each sample. Samples are then drawn
				with replacement */
	uint64_t epoch_length; /* 0: as many as there are; samples of an epoch. Without `weights`
				  each sample comes once before any comes twice, over the ends of
				  epochs */
	uint32_t repeats; /* 0: 1; how often in a row each sample comes, each time with other draws
			     (repeated augmentation), 1 to 16; an epoch stays as long as it is */
	uint32_t views; /* 0: 1; images made of each sample, 1 to 8, which lie next to each other */
	const char *dtype; /* NULL: "uint8"; "float32", "float16", "bfloat16": normalised by the
			      daemon, as penstock_convert does it */
	const char *layout; /* NULL: "NHWC"; "NCHW" */
	const float *mean, *std; /* NULL: ImageNet's; three each, for a dtype of floats */
};

/* Sets all defaults, and `size` as given: that of the struct which the application was compiled
 * with, so that a later library writes no further. */
PENSTOCK_API void penstock_options_init_size(struct penstock_options *options, size_t size);

/* The same for this header's struct. The function behind the macro fills the struct as it first
 * was, up to `daemon_threads`: what was compiled before there was more calls it. */
PENSTOCK_API void penstock_options_init(struct penstock_options *options);
#define penstock_options_init(options) penstock_options_init_size((options), sizeof *(options))

/* What the daemon opened. */
struct penstock_stream_info {
	uint64_t samples; /* of the dataset; with `indices`, how many they are (then
			     penstock_stream_stats has the dataset's as "samples") */
	uint64_t batches; /* per epoch and rank */
	uint64_t fingerprint; /* of the dataset: keys, sizes, labels; not paths */
	uint64_t seed;
	uint64_t epoch, batch; /* the first batch that `next` will give */
	uint32_t batch_size;
	uint32_t height, width; /* the largest that any batch has: penstock_batch has its own */
	uint32_t channels;
	uint32_t classes; /* number of class names; 0: unknown */
	uint32_t slots; /* batches that may exist at once */
	uint32_t rank, world_size;
	uint32_t shuffle, train;
	uint32_t views; /* rows of a sample, which are neighbours; 1 unless asked for */
	uint32_t dtype, layout; /* of the images: enum penstock_dtype, enum penstock_layout */
	uint32_t label_type; /* enum penstock_label_type */
	uint32_t label_width; /* labels of a sample: 1, or the classes of a multi-hot label */
};

enum penstock_label_type {
	PENSTOCK_LABEL_INT64 = 0, /* penstock_batch.labels; label_width is 1 */
	PENSTOCK_LABEL_FLOAT32 = 1, /* penstock_batch.label_values */
};

enum {
	PENSTOCK_FLIPPED = 1, /* mirrored left to right */
	PENSTOCK_SUBSTITUTED =
		2, /* the sample wanted is broken: `index` is the one shown in its place */
	PENSTOCK_PADDED = 4, /* repeated so that ranks get equally many batches */
	PENSTOCK_INVALID = 8, /* broken, in evaluation: the row is zero; leave it out of metrics */
	PENSTOCK_FLIPPED_VERTICALLY = 16, /* upside down */
};

/* How a row was made; 64 bytes, as they lie in shared memory. */
struct penstock_sample {
	uint64_t index; /* of the sample shown */
	int64_t label; /* the first one; -1: unlabelled */
	/* Pixels of the source, of what was resized: RandomResizedCrop's box, otherwise the whole
	 * image, of which CenterCrop or RandomCrop then take their part. */
	uint32_t crop_x, crop_y, crop_w, crop_h;
	uint32_t src_w, src_h; /* pixels */
	uint32_t flags; /* PENSTOCK_FLIPPED ... */
	uint32_t view; /* of several of one sample, from 0 */
	uint64_t position; /* in the epoch's order */
	uint64_t reserved1;
};

enum { PENSTOCK_LAST = 1 }; /* batch flag: the last of its epoch */

struct penstock_batch {
	const void *images; /* info.dtype, shape (batch_size x views, height, width, 3): RGB rows,
			       C order; info.layout NCHW: (batch_size x views, 3, height, width) */
	const int64_t *labels; /* shape (batch_size,); NULL where info.label_type is FLOAT32 */
	const struct penstock_sample *samples; /* shape (batch_size x views,) */
	uint32_t count; /* valid samples; below batch_size only at the end of an evaluation epoch */
	uint32_t flags; /* PENSTOCK_LAST */
	uint64_t epoch, batch; /* its name */
	size_t image_bytes; /* of one row of images */
	uint32_t height, width; /* of these images: info's, or less where the size changes with the
				   epoch */
	const float *label_values; /* shape (batch_size, info.label_width); NULL where
				      info.label_type is INT64 */
	/* the library's own */
	uint32_t extent, slot;
	uint64_t serial;
};

struct penstock_stream;

enum { PENSTOCK_END = 1 };

/* Opens a stream. Blocks while the daemon starts (at most 30 s) and, without a limit, while it
 * builds missing indexes: a daemon that ends meanwhile ends the wait, a signal that the application
 * handles does not. 0, or a negative errno: -ENOENT no such source (or no penstockd to start),
 * -EINVAL an option or a variable (named) is wrong or the source is no dataset, -ENOMEM it does not
 * fit the daemon's memory (says what would), -ECONNREFUSED no daemon, -EPERM the socket or its
 * folder is another user's, -EPIPE the daemon ended meanwhile, -ETIMEDOUT it is stopped, -EPROTO
 * another version or a broken daemon, -ENOTSUP the stream's batches are not of the shape described
 * above, -ESTALE a state that does not fit (says what differs), -EBUSY the group refuses: other
 * options, another state, or a rank that is taken, -EINTR options.interrupt says so. */
PENSTOCK_API int penstock_stream_open(
	const struct penstock_options *options, struct penstock_stream **ret_stream);

/* Releases all batches and frees. NULL is allowed. */
PENSTOCK_API void penstock_stream_close(struct penstock_stream *stream);

/* Function and struct have one name, as stat() and struct stat have: in C++ write `struct
 * penstock_stream_info`. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
PENSTOCK_API void penstock_stream_info(
	const struct penstock_stream *stream, struct penstock_stream_info *ret_info);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* The next batch. Waits up to `timeout_ms` (0: not at all; PENSTOCK_TIMEOUT_DEFAULT,
 * PENSTOCK_FOREVER); signals do not end the wait. 0; PENSTOCK_END after the last epoch; -EAGAIN
 * none is ready (timeout 0 only); -ETIMEDOUT (the sentence names the stage that is slow, which
 * takes up to 0.2 s more to ask; the stream goes on); -EDEADLK all slots are held by this trainer,
 * so that waiting would be for itself; -EINTR options.interrupt says so (the stream goes on);
 * -EBADF after fork. The stream is over, and every further call says the same, after -EPIPE the
 * daemon is gone (-ESHUTDOWN: it was told to end), -EPROTO it broke the protocol, -ECANCELED this
 * trainer was detached from its group, -EIO and others as the sentence says.
 *
 * With options.reconnect_ms, -EPIPE and -ESHUTDOWN end it only when no other daemon could be
 * reached in that time, options.restarts allows no more, or the one that was refuses the stream or
 * opened another one (-ESTALE, -EBUSY and others of opening). Of "stream:NAME" a daemon that
 * does not know the name is not the one that is waited for: it is asked again until the time is up,
 * and the sentence then names it. `timeout_ms` bounds each call
 * all the same: -ETIMEDOUT and -EAGAIN then say that the daemon is being waited for, and the next
 * call goes on waiting. (A call may start a process, which takes some milliseconds.) Time in which
 * a daemon that was found opens the stream, and builds an index, is not counted. Batches held
 * meanwhile stay readable until they are released. */
PENSTOCK_API int penstock_stream_next(
	struct penstock_stream *stream, struct penstock_batch *ret_batch, int32_t timeout_ms);

/* Gives a batch back; its pointers are dead from here on and are set to NULL. 0, also when the
 * daemon has gone meanwhile; -EINVAL when it is not held (released twice); -ECANCELED when the
 * daemon took it back while it was held (this trainer was detached from its group, or its
 * connection was lost to a daemon that lives on) and filled its memory again: what was read may be
 * of another batch and must not be used, and a state taken since `next` gave it has passed it: go
 * on from one taken before. */
PENSTOCK_API int penstock_batch_release(
	struct penstock_stream *stream, struct penstock_batch *batch);

/* When the daemon had the batch complete: CLOCK_MONOTONIC in nanoseconds, for measuring how long it
 * took from there. 0 when the batch is not held. */
PENSTOCK_API uint64_t penstock_batch_ready_ns(
	const struct penstock_stream *stream, const struct penstock_batch *batch);

/* The mapping that a held batch lies in: for registering it with a device, or for mapping the same
 * pages once more. Batches with the same `extent` lie in the same one, and no other one is ever
 * called by that number. It is unmapped when no batch of it is held and the daemon has withdrawn it
 * or has gone. 0; -EINVAL when the batch is not held. */
PENSTOCK_API int penstock_batch_memory(const struct penstock_stream *stream,
	const struct penstock_batch *batch, const void **ret_base, size_t *ret_bytes);

/* Whether the stream's memory can be written to by this process, which is what options.pin_memory
 * asks for: 1 where nobody else reads the stream, else 0. penstock_batch.images cannot all the
 * same; a further mapping of its pages (mremap) can be made writable. */
PENSTOCK_API int penstock_stream_writable(const struct penstock_stream *stream);

/* A descriptor that polls readable (POLLIN) when penstock_stream_next may have something: for event
 * loops. After it woke, call penstock_stream_next with timeout 0 until -EAGAIN. The same for the
 * life of the stream; also wakes for each step of finding another daemon. Not to be read or closed.
 */
PENSTOCK_API int penstock_stream_fd(const struct penstock_stream *stream);

/* Where the loop is: JSON that options.state takes to go on with the batch after the last one given
 * by `next` (before the first: with that one). Copies a terminated string and returns its length
 * without the zero; -ENOSPC when `room` is too small (512 always suffices). */
PENSTOCK_API int penstock_stream_state(
	const struct penstock_stream *stream, char *buffer, size_t room);

/* What PENSTOCK_TIMEOUT_DEFAULT means to this stream, in milliseconds or PENSTOCK_FOREVER. */
PENSTOCK_API int32_t penstock_stream_timeout_ms(const struct penstock_stream *stream);

/* Texts from the daemon; malloc'ed, the caller frees. Block for one round trip, at most 30 s
 * (-ETIMEDOUT) or until options.interrupt says so (-EINTR). Errors as of next, -EPIPE also while
 * another daemon is being waited for; -EINVAL when the daemon does not know what is asked for. */
PENSTOCK_API int penstock_stream_classes(
	struct penstock_stream *stream, char **ret_lines); /* class names, one per line, by label */
PENSTOCK_API int penstock_stream_path(struct penstock_stream *stream, uint64_t index,
	char **ret_path); /* a file, or SHARD!MEMBER */
PENSTOCK_API int penstock_stream_stats(
	struct penstock_stream *stream, char **ret_json); /* counters and verdict */
PENSTOCK_API int penstock_stream_config(
	struct penstock_stream *stream, char **ret_json); /* its full definition */
PENSTOCK_API int penstock_stream_wait(struct penstock_stream *stream,
	char **ret_sentence); /* what it waits for right now: the stage, the file it is at; within
				 0.2 s, or -ETIMEDOUT */

/* Making tensors of a batch's images, on the CPU.
 *
 *   struct penstock_convert_options options;
 *   penstock_convert_options_init(&options);
 *   options.dtype = PENSTOCK_FLOAT32;
 *   struct penstock_convert *convert;
 *   if (penstock_convert_new(&options, &convert) < 0)
 *           fail(penstock_error());
 *   penstock_convert_rows(convert, batch.images, batch.count * info.views, batch.height,
 *           batch.width, tensor);
 *   penstock_convert_free(convert);
 *
 * What is written is (x / 255 - mean) / std, rounded as torchvision's ToTensor and Normalize round
 * it in float32, and once more (to nearest, ties to even) to a shorter dtype; uint8 is x itself. A
 * table for these 256 values per channel is the law, and all kernels equal it bit for bit. */
enum penstock_dtype {
	PENSTOCK_UINT8 = 0,
	PENSTOCK_FLOAT32 = 1,
	PENSTOCK_FLOAT16 = 2,
	PENSTOCK_BFLOAT16 = 3,
};

/* Order in memory; the tensor is (batch, 3, height, width) to PyTorch in both. */
enum penstock_layout {
	PENSTOCK_NHWC = 0, /* "channels_last", as the batch has it */
	PENSTOCK_NCHW = 1,
};

struct penstock_convert_options {
	size_t size; /* of this struct, set by penstock_convert_options_init */
	uint32_t dtype, layout; /* FLOAT32, NHWC */
	float mean[3], std[3]; /* ImageNet's: 0.485 0.456 0.406, 0.229 0.224 0.225 */
};

PENSTOCK_API void penstock_convert_options_init_size(
	struct penstock_convert_options *options, size_t size);
#define penstock_convert_options_init(options) \
	penstock_convert_options_init_size((options), sizeof *(options))

struct penstock_convert;

/* Prepares; a few microseconds. 0; -EINVAL an option (named): an unknown dtype or layout, a mean or
 * std that is not finite, a std of 0; -ENOMEM. The variable PENSTOCK_KERNELS chooses the kernels,
 * as it does for the daemon: -EINVAL an unknown name, -ENOTSUP what this processor has not got. */
PENSTOCK_API int penstock_convert_new(
	const struct penstock_convert_options *options, struct penstock_convert **ret_convert);

/* Bytes of one row of what is written. */
PENSTOCK_API size_t penstock_convert_row_bytes(
	const struct penstock_convert *convert, uint32_t height, uint32_t width);

/* Writes `count` rows, of uint8 (count, height, width, 3), to `out`, aligned to 64 bytes or not;
 * they must not overlap. Reads and writes nothing beyond them. Thread: any, several at once. */
PENSTOCK_API void penstock_convert_rows(const struct penstock_convert *convert, const void *rows,
	uint32_t count, uint32_t height, uint32_t width, void *out);

PENSTOCK_API void penstock_convert_free(struct penstock_convert *convert);

/* MixUp, CutMix, RandomErasing behind the conversion, and soft labels, on the CPU.
 *
 *   penstock_mix_plan(mix, &info, &batch, rows);
 *   penstock_convert_rows(convert, batch.images, batch.count * info.views, batch.height,
 *           batch.width, tensor);
 *   uint32_t count = batch.count * info.views;
 *   penstock_mix_targets(mix, rows, count, info.views, batch.labels, targets);
 *   penstock_batch_release(stream, &batch);
 *   penstock_mix_apply(mix, rows, count, &images);
 *
 * What is drawn follows from the stream's seed, the epoch and the position of a row's sample (of
 * the batch's first sample for mixing), as penstock/cuda.h has it, and is the same there: a run
 * goes on alike whenever and wherever it does. Rows pair with the one before them, the first with
 * the last, as torchvision.transforms.v2's MixUp and CutMix do. First rows are erased, then mixed.
 *
 * With several views, rows are images and labels are of samples: all views of a batch are mixed
 * with one lambda and one rectangle, each with the partner's view of the same number, so that one
 * soft label is true of all views of a sample. Erasing is drawn for each view.
 *
 * Images are the caller's own memory, never a batch's: others may read that one. */
struct penstock_mix_options {
	size_t size; /* of this struct, set by penstock_mix_options_init */
	double mixup, cutmix; /* 0: off; alpha of their Beta distributions, 0.01 to 100 */
	double mix; /* 1; probability that a batch is mixed at all */
	double mix_switch; /* 0.5; where both are on: probability of CutMix */
	double erase; /* 0; probability of RandomErasing, as torchvision's */
	double erase_scale[2], erase_ratio[2]; /* 0.02 0.33, 0.3 3.3; of the area; height : width */
	float erase_value[3]; /* 0 0 0; per channel, of what images hold: after normalising */
	int32_t erase_random; /* 0; 1: standard normal noise in place of erase_value */
	uint32_t classes; /* 0; of the soft labels that penstock_mix_targets writes, 1 to 2^24 */
	float smoothing; /* 0; label smoothing, as torch.nn.CrossEntropyLoss's, 0 to 1 */
};

PENSTOCK_API void penstock_mix_options_init_size(struct penstock_mix_options *options, size_t size);
#define penstock_mix_options_init(options) \
	penstock_mix_options_init_size((options), sizeof *(options))

enum { PENSTOCK_ROW_FLIPPED = 1, PENSTOCK_ROW_ERASED = 2, PENSTOCK_ROW_MIXED = 4 };

/* What is done to one row of images; 64 bytes, those of struct penstock_cuda_row. Rectangles are in
 * pixels. The mixed label is weight x label of the row's sample + partner_weight x the partner's.
 */
struct penstock_mix_row {
	uint64_t position; /* of the sample in its epoch's order */
	uint32_t flags; /* PENSTOCK_ROW_ERASED, _MIXED; _FLIPPED is done on devices alone */
	uint32_t epoch; /* its low 32 bits */
	uint16_t erase_x, erase_y, erase_w, erase_h;
	uint16_t cut_x, cut_y, cut_w, cut_h; /* CutMix: what is the partner's; MixUp: nothing */
	uint32_t partner; /* row that is mixed in; itself where nothing is */
	float blend, partner_blend; /* MixUp: of the pixels; 1 and 0 otherwise */
	float weight, partner_weight; /* of the labels; 1 and 0 where nothing is mixed */
	uint32_t view; /* of the sample */
	uint32_t seed[2]; /* the stream's, low half first: for noise */
};

struct penstock_mix;

/* 0; -EINVAL an option (named, and what is allowed); -ENOMEM. */
PENSTOCK_API int penstock_mix_new(
	const struct penstock_mix_options *options, struct penstock_mix **ret_mix);
PENSTOCK_API void penstock_mix_free(struct penstock_mix *mix);

/* Draws what is done to a held batch: fills batch->count x info->views rows. Thread: any, several
 * at once, as of all that follows; nothing is kept in `mix`. */
PENSTOCK_API void penstock_mix_plan(const struct penstock_mix *mix,
	const struct penstock_stream_info *info, const struct penstock_batch *batch,
	struct penstock_mix_row *ret_rows);

/* Images as penstock_convert_rows writes them. */
struct penstock_mix_images {
	void *memory; /* the caller's own, aligned to an element */
	uint32_t dtype, layout; /* enum penstock_dtype but for UINT8; enum penstock_layout */
	uint32_t height, width;
};

/* Erases and mixes `count` rows in place: as many as were planned together. In float32, each
 * operation rounded, and the result once more (to nearest, ties to even) to a shorter dtype: for
 * float32 what the device gives, bit for bit, but for noise, whose last bits are each machine's;
 * shorter dtypes were rounded by the conversion already, which the device does only once. 0;
 * -EINVAL a dtype or layout, rows that were not planned together (says which), a rectangle beyond
 * the image, memory that is a batch's: nothing was changed then. */
PENSTOCK_API int penstock_mix_apply(const struct penstock_mix *mix,
	const struct penstock_mix_row *rows, uint32_t count,
	const struct penstock_mix_images *images);

/* Soft labels: float32, shape (count / views, classes), of int64 labels of count / views samples.
 * Smoothed, then mixed. A sample without a label (below 0) among others adds nothing; a stream has
 * labels for all samples or for none. 0; -EINVAL options.classes was not set, a label is not below
 * it, no sample has one, or a partner is not among the rows (says which); nothing was written then.
 */
PENSTOCK_API int penstock_mix_targets(const struct penstock_mix *mix,
	const struct penstock_mix_row *rows, uint32_t count, uint32_t views, const int64_t *labels,
	float *targets);

/* The same of labels that are floats already (multi-hot, or values), `width` for each sample: they
 * are mixed as they are, and not smoothed. `values` and `targets` may not overlap. */
PENSTOCK_API int penstock_mix_values(const struct penstock_mix *mix,
	const struct penstock_mix_row *rows, uint32_t count, uint32_t views, const float *values,
	uint32_t width, float *targets);

/* The daemon itself, without a stream. `socket` NULL: as for a stream, and where nobody is there
 * the private daemon of another of the user's jobs, if one alone runs; -EBUSY there are several
 * (lists their sockets). -ECONNREFUSED when none runs; it is never started for this. */
PENSTOCK_API int penstock_daemon_status(const char *socket, char **ret_json);
PENSTOCK_API int penstock_daemon_stop(
	const char *socket); /* drains and ends it; returns when it has gone (at most 10 s) */
/* Which one that is: its socket, for whoever goes on speaking to it, also as options.socket. 108
 * bytes always suffice; -ENOSPC. */
PENSTOCK_API int penstock_daemon_socket(const char *socket, char *buffer, size_t room);

/* Pid of the daemon behind a stream: for measuring it from outside. 0 when it lives in a pid
 * namespace that this process cannot see, or another one is being waited for. */
PENSTOCK_API int32_t penstock_stream_daemon_pid(const struct penstock_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
