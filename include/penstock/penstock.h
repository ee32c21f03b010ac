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
 * Opening a stream connects to the running daemon, or starts a private daemon, which ends ten
 * seconds after its last client has left. options.daemon_memory and options.daemon_threads apply to
 * a daemon that this call starts. If the environment names a job (PENSTOCK_JOB, torchrun's or
 * Slurm's variables, MASTER_ADDR and MASTER_PORT) and nothing names a socket, the private daemon
 * belongs to that job: it listens in a folder of the job's own, and all processes of the job on
 * this machine find it; other jobs have daemons of their own. Otherwise the private daemon listens
 * at the user's socket: streams that are opened meanwhile use it too, and a penstockd that is
 * started there by hand refuses to start.
 *
 * A batch's memory is read-only. It is valid from penstock_stream_next() to
 * penstock_batch_release() or penstock_stream_close(), whichever comes first. At most
 * penstock_stream_info.slots batches exist at once: a trainer that holds all of them and asks for
 * another gets -EDEADLK instead of waiting for itself.
 *
 * Several trainers can read one stream together (options.share): each trainer gets every batch, or
 * each rank gets its slice of every global batch. A stream can outlive its daemon
 * (options.reconnect_ms): it goes on with the batch that comes next, loses none and gives none
 * twice, and batches that the application holds stay where they are.
 *
 * A stream is endless unless options.epochs is set: batches carry their epoch, and PENSTOCK_LAST
 * marks the last batch of each epoch.
 *
 * Threads: one thread at a time may use a stream. Different streams are independent.
 * penstock_error() is per thread. After fork() the child's streams are dead: every call on them
 * except penstock_stream_close() returns -EBADF.
 *
 * Errors: a function returns 0 or a positive documented outcome; a negative errno is a failure, and
 * penstock_error() then returns a sentence that says what happened and what to do. On failure a
 * function leaves its outputs (ret_...) unchanged. No function exits, prints, raises a signal or
 * changes how a signal is handled. */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_API __attribute__((visibility("default")))

/* Release of the library, "0.1.0". A constant string. */
PENSTOCK_API const char *penstock_version(void);

/* The last failure of this thread: one sentence, or "" if there was none. If there was no memory
 * for the sentence, a sentence that says so. Valid until the thread's next call into penstock. */
PENSTOCK_API const char *penstock_error(void);

/* Sets what penstock_error() returns in this thread: for libraries that are built on this one and
 * report failures of their own. The sentence is copied, cut at the length that sentences may have,
 * and its control characters become spaces. */
PENSTOCK_API void penstock_error_set(const char *sentence);

/* Values of timeout_ms: the stream's own timeout, and no limit. */
enum { PENSTOCK_TIMEOUT_DEFAULT = -1, PENSTOCK_FOREVER = -2 };

/* A value of `shuffle`: within a window of blocks, which are read in large pieces. */
enum { PENSTOCK_SHUFFLE_BLOCKS = 2 };

/* What to open. Unset values (0, NULL) mean the default named here. penstock_stream_open() copies
 * what it needs: the texts need not outlive the call. penstock.yaml(5) says more about each key. */
struct penstock_options {
	/* Size of this struct, set by penstock_options_init. */
	size_t size;
	/* Folder, tar or file of another kind (DATASETS in penstock.yaml(5)), glob, brace range, or
	 * "stream:NAME" of the daemon's configuration. With
	 * "stream:NAME" the options that the configuration defines stay unset. */
	const char *source;
	/* NULL: PENSTOCK_SOCKET, otherwise the user's runtime folder, in which a job may have a
	 * folder of its own. */
	const char *socket;
	/* 0: 64. Samples per batch and rank. */
	uint32_t batch_size;
	/* 0: 224. Height and width in pixels. */
	uint32_t image_size;
	/* 1 (default): RandomResizedCrop and flip, shuffled, last short batch dropped. 0: Resize
	 * and CenterCrop, in order, last batch short. */
	int32_t train;
	/* -1 (default): as train implies; 0; 1, a full shuffle; PENSTOCK_SHUFFLE_BLOCKS. */
	int32_t shuffle;
	/* -1 (default): as train implies; 0; 1. */
	int32_t drop_last;
	/* Default: 0. */
	uint64_t seed;
	/* 0: endless. Otherwise penstock_stream_next returns PENSTOCK_END after this many. */
	uint64_t epochs;
	/* 0: the daemon's default (4; more from a URL). Slots: batches that may exist at once. */
	uint32_t prefetch;
	/* NULL: "auto". Or "none", "folder", "cls", "json"; or, beginning with '{', a JSON mapping:
	 * `{"manifest": "labels.csv", "type": "multi_hot"}`. See LABELS in penstock.yaml(5). */
	const char *labels;
	/* NULL: "substitute" in training, "mark" in evaluation. Or "fail". */
	const char *on_broken;
	/* 0: 0.01. Share of an epoch's samples that may be broken before the stream ends. */
	double max_broken;
	/* Trainers that name the same group read together, see `share`. NULL: trainers that open
	 * the same "stream:NAME" read together; otherwise, without `share`, the stream is this
	 * trainer's own. If `share` is given with another source, NULL stands for a name that is
	 * made of the job's name (PENSTOCK_JOB, TORCHELASTIC_RUN_ID, SLURM_JOB_ID, MASTER_ADDR and
	 * MASTER_PORT, else this process), of the stream's definition, and of the number of such
	 * streams that this process has opened: ranks must open theirs in the same order. */
	const char *group;
	/* 0: 1. Trainers (or ranks, at most world_size) that a group waits for before its first
	 * batch; each daemon counts its own. Above 1 there must be a group that they can find:
	 * `group`, or with `share` a variable that names the job. */
	uint32_t wait_for;
	/* NULL: from the beginning. Otherwise the JSON of penstock_stream_state. */
	const char *state;
	/* 0: 120,000. Default timeout of penstock_stream_next in milliseconds; or
	 * PENSTOCK_FOREVER. */
	int32_t timeout_ms;
	/* 1 (default): start a daemon if none is running. 0: fail with -ECONNREFUSED. */
	int32_t private_daemon;
	/* Memory budget of a daemon that this call starts: "4G". NULL: the daemon's default.
	 * Ignored if a daemon is running already. */
	const char *daemon_memory;
	/* Decoding threads of a daemon that this call starts. 0: the daemon's default. Ignored if a
	 * daemon is running already. */
	uint32_t daemon_threads;
	/* NULL: "exact", Pillow's bytes. "fast": from fewer outputs of each block, if the crop is
	 * at least twice the row. */
	const char *decode;
	/* NULL: "bilinear". Or "bicubic", "box", "hamming", "lanczos", "nearest": the filter of the
	 * resize, as Pillow's; or "random": one of the first two for each row. */
	const char *interpolation;
	/* NULL: "all", or as the configuration defines "stream:NAME". What a group shares: with
	 * "all" every trainer gets every batch; with "split" each gets its rank's slice of every
	 * global batch of world_size x batch_size samples. */
	const char *share;
	/* For "split". If both are unset and `share` here is "split": RANK and WORLD_SIZE of the
	 * environment, as torchrun sets them. */
	uint32_t rank, world_size;
	/* NULL: "block": a trainer that keeps its batches holds up its group. "detach": after
	 * laggard_timeout_s it is detached, with -ECANCELED. */
	const char *laggard;
	/* 0: 60. Seconds. */
	uint32_t laggard_timeout_s;
	/* 0: the stream ends when its daemon is gone. Otherwise penstock_stream_next looks for
	 * another daemon for this many milliseconds, or without limit with PENSTOCK_FOREVER, and
	 * goes on with the next batch. If private_daemon is set it starts a private one, except for
	 * "stream:NAME", because a private daemon would have no configuration. penstock_stream_open
	 * also starts a private daemon again that dies while it opens the stream. */
	int32_t reconnect_ms;
	/* 1: the application registers the batches' memory with a device (penstock/cuda.h). Most
	 * devices allow that only if this process could write to the memory. If no other trainer
	 * can read the stream (no `group` and no "stream:NAME", or `share` "split") the daemon
	 * therefore leaves the memory writable. penstock_batch.images stays a read-only mapping. */
	int32_t pin_memory;
	/* NULL: as `train` implies. Otherwise the operations on each image, as a JSON list of
	 * objects with one member each, torchvision's name and parameters: `[{"RandomResizedCrop":
	 * {"size": 176}}, {"RandomHorizontalFlip": {"p": 0.5}}]`. See TRANSFORMS in
	 * penstock.yaml(5). The list sets size and filter: image_size and interpolation stay
	 * unset. */
	const char *transforms;
	/* NULL: all samples. Otherwise the path of a .npy file of integers with one dimension: the
	 * samples that an epoch consists of, in this order or (`shuffle`) shuffled. The file must
	 * exist as long as the stream is open. */
	const char *indices;
	/* With reconnect_ms: how many private daemons this stream may start in its life in place of
	 * one that died; those that others started do not count. 0: no limit. When the number is
	 * used up and nobody else's daemon is running, the stream ends (-EPIPE). */
	uint32_t restarts;
	/* NULL, or a function that the library calls while it blocks (opening, asking, waiting): in
	 * the thread that called, at most ten times a second and when a signal was handled. A
	 * result other than 0 ends the call with -EINTR. It must not call the library. An open that
	 * is ended leaves nothing behind (a daemon that it was starting ends by itself); a stream
	 * goes on, and the same question may be asked again. */
	int (*interrupt)(void *data);
	/* Passed to `interrupt`. */
	void *interrupt_data;
	/* The options below are keys of penstock.yaml(5), which says more about each. The library
	 * makes paths absolute. JSON texts are the values as they are written there. */

	/* NULL; or, in place of image_size, JSON: height and width, `[256, 128]`, or the size from
	 * an epoch on, `{"0": 128, "16": [192, 96]}`. Batches then have the height and width of
	 * their epoch. */
	const char *image_sizes;
	/* NULL; or, in place of `source`, several datasets and how often each is drawn from, as a
	 * JSON list: `[{"source": "a", "weight": 3}, {"source": "b", "weight": 1}]`. */
	const char *sources;
	/* NULL: all samples. "train[:90%]": a part of them, always the same. */
	const char *split;
	/* NULL; "balanced", each class as often as the others (of labels of several classes the
	 * first); or the path of a .npy file with one float for each sample. Samples are then drawn
	 * with replacement. */
	const char *weights;
	/* 0: the number of samples. Samples in an epoch. Without `weights` each sample comes once
	 * before any comes twice, across the ends of epochs. */
	uint64_t epoch_length;
	/* 0: 1. How many times in a row each sample comes, each time with other draws (repeated
	 * augmentation), 1 to 16. The length of an epoch does not change. */
	uint32_t repeats;
	/* 0: 1. Images made of each sample, 1 to 16, next to each other. */
	uint32_t views;
	/* NULL: "uint8". "float32", "float16", "bfloat16": normalized by the daemon, as
	 * penstock_convert does it. */
	const char *dtype;
	/* NULL: "NHWC". Or "NCHW". */
	const char *layout;
	/* NULL: ImageNet's. Three values each, for a dtype of floats. */
	const float *mean, *std;
	/* NULL: none. A text, up to 127 bytes: streams of one seed whose salts differ have the same
	 * order of samples and other random draws (crops, flips, mixing). */
	const char *salt;
	/* 0: 64,000,000 pixels, and 536,870,912 bytes (512 MiB). Larger images, and larger files,
	 * are broken. No other limit depends on the daemon or its machine. */
	uint64_t max_image_pixels, max_file_bytes;
	/* NULL: "bytewise", class folders are numbered as torchvision's ImageFolder numbers them.
	 * "natural": as timm does, "9" before "10". */
	const char *class_order;
	/* 1: class folders that are named like splits (train, val, ...) and hold folders are meant.
	 * Otherwise they are refused: often the folder above the dataset was named. */
	int32_t nested;
	/* NULL; or JSON: `{"classes": 16, "per_class": 4}`. Every batch then has 16 distinct
	 * classes with 4 samples of each, next to each other. batch_size is their product or a
	 * multiple of it. Of labels of several classes (`type: classes`) the first counts. */
	const char *sampling;
	/* NULL; or, in place of `views`, JSON: a list of groups of views, each with its own size
	 * and operations: `[{"image_size": 224, "count": 2}, {"image_size": 96, "count": 8}]`. See
	 * VIEWS in penstock.yaml(5) and penstock_stream_group. Only programs that were compiled
	 * with this field can open a stream with groups. */
	const char *view_groups;
	/* NULL; or what to deliver beside each image: bytes of the members of a tar with the same
	 * key, or of the files of a folder with the same path, and another extension. One
	 * extension, `txt`; or JSON: a list of at most 8 of them, in which a mapping says more:
	 * `["txt", {"name": "npy", "max": 4096, "long": "cut", "missing": "empty"}]`. A row has
	 * room for `max` bytes (4,096); a longer field makes its sample broken, unless `long` is
	 * `cut`, and a missing one does, unless `missing` is `empty`. See penstock_batch_field. */
	const char *fields;
	/* NULL; or JSON in place of image_size: `[[256, 192], [224, 224], [192, 256]]`, 1 to 64
	 * pairs of height and width. Every batch then has one of these shapes, and each sample
	 * belongs to the shape whose ratio of width to height is nearest to its image's. The
	 * height and width of struct penstock_batch are those of the batch. penstock.yaml(5)
	 * says more. */
	const char *buckets;
	/* 0; or -65536 to 65536: added to each label of a column, -1 where classes begin with 1. */
	int32_t label_offset;
	/* NULL: found by type or name. Or the names of the columns of Parquet, MDS and LitData, or
	 * the features of TFRecords, that hold the images and the labels. See DATASETS in
	 * penstock.yaml(5). */
	const char *image_column, *label_column;
	/* 0: 16. With PENSTOCK_SHUFFLE_BLOCKS: how many blocks are open at once, 1 to 65536. A
	 * block has 8 to 16 MiB of samples that are neighbors in storage. SHUFFLE in
	 * penstock.yaml(5) says how to choose it. */
	uint32_t window;
};

/* Sets all defaults, and `size` as given: the size of the struct that the application was compiled
 * with, so that a later library writes no further. Never fails. */
PENSTOCK_API void penstock_options_init_size(struct penstock_options *options, size_t size);

/* The same for this header's struct. The function behind the macro fills the struct of the first
 * release, up to `daemon_threads`; programs that were compiled with that release call it. */
PENSTOCK_API void penstock_options_init(struct penstock_options *options);
#define penstock_options_init(options) penstock_options_init_size((options), sizeof *(options))

/* What the daemon opened. */
struct penstock_stream_info {
	/* Samples of the dataset; with `indices`, the number of indices (penstock_stream_stats then
	 * gives the dataset's as "samples"). */
	uint64_t samples;
	/* Per epoch and rank. */
	uint64_t batches;
	/* Of the dataset: its keys, sizes and labels, but not paths. */
	uint64_t fingerprint;
	uint64_t seed;
	/* The first batch that `next` will give. */
	uint64_t epoch, batch;
	uint32_t batch_size;
	/* The largest that any batch has, or any group; penstock_batch and penstock_view_group
	 * have their own. */
	uint32_t height, width;
	uint32_t channels;
	/* Number of class names; 0: unknown. */
	uint32_t classes;
	/* Batches that may exist at once. */
	uint32_t slots;
	uint32_t rank, world_size;
	uint32_t shuffle, train;
	/* Rows of a sample, which are neighbors; 1 unless asked for. With groups
	 * (penstock_stream_groups) of all of them together. */
	uint32_t views;
	/* Of the images: enum penstock_dtype, enum penstock_layout. */
	uint32_t dtype, layout;
	/* enum penstock_label_type. */
	uint32_t label_type;
	/* Label values of a sample: 1; or the number of classes of a multi-hot label, of
	 * numbers, or of classes (`type: classes`). */
	uint32_t label_width;
	/* A hash of the stream's `salt`; 0: it has none. */
	uint32_t salt;
};

enum penstock_label_type {
	/* penstock_batch.labels; label_width is 1, but with `type: classes` in `labels` it is
	 * the number of classes that each sample has. */
	PENSTOCK_LABEL_INT64 = 0,
	/* penstock_batch.label_values. */
	PENSTOCK_LABEL_FLOAT32 = 1,
};

/* penstock_sample.flags. */
enum {
	/* Mirrored left to right. */
	PENSTOCK_FLIPPED = 1,
	/* The wanted sample is broken: `index` is the one shown in its place. */
	PENSTOCK_SUBSTITUTED = 2,
	/* Repeated, so that all ranks get the same number of batches. */
	PENSTOCK_PADDED = 4,
	/* Broken, in evaluation: the row is zero. Leave it out of metrics. */
	PENSTOCK_INVALID = 8,
	/* Upside down. */
	PENSTOCK_FLIPPED_VERTICALLY = 16,
};

/* How a row was made; 64 bytes, as they are stored in shared memory. */
struct penstock_sample {
	/* Of the sample shown. */
	uint64_t index;
	/* The first one; -1: unlabeled. */
	int64_t label;
	/* The part of the source that was resized, in source pixels: RandomResizedCrop's box;
	 * otherwise the whole image, of which CenterCrop or RandomCrop then take their part. */
	uint32_t crop_x, crop_y, crop_w, crop_h;
	/* Size of the source in pixels. */
	uint32_t src_w, src_h;
	/* PENSTOCK_FLIPPED ... */
	uint32_t flags;
	/* Which of the sample's views, from 0. */
	uint32_t view;
	/* In the epoch's order. */
	uint64_t position;
	uint64_t reserved1;
};

/* penstock_batch.flags: the last batch of its epoch. */
enum { PENSTOCK_LAST = 1 };

/* A batch in shared memory. The pointers are valid until the batch is released. */
struct penstock_batch {
	/* info.dtype, shape (batch_size x views, height, width, 3): RGB rows, C order. With
	 * info.layout NCHW: (batch_size x views, 3, height, width). Of a stream with groups of
	 * views: the first group's (penstock_batch_images). */
	const void *images;
	/* Shape (batch_size, info.label_width); NULL if info.label_type is FLOAT32. */
	const int64_t *labels;
	/* Shape (batch_size x views,). */
	const struct penstock_sample *samples;
	/* Valid samples; below batch_size only at the end of an evaluation epoch. */
	uint32_t count;
	/* PENSTOCK_LAST. */
	uint32_t flags;
	/* The batch's name. */
	uint64_t epoch, batch;
	/* Of one row of images. */
	size_t image_bytes;
	/* Of these images: info's, or less if the size changes with the epoch. */
	uint32_t height, width;
	/* Shape (batch_size, info.label_width); NULL if info.label_type is INT64. */
	const float *label_values;
	/* The library's own. */
	uint32_t extent, slot;
	uint64_t serial;
};

struct penstock_stream;

/* penstock_stream_next: the last epoch is over. */
enum { PENSTOCK_END = 1 };

/* Opens a stream. On success *ret_stream is the caller's, who closes it with
 * penstock_stream_close(); on failure there is nothing to close.
 *
 * Thread: any. Blocks while the daemon starts (at most 30 s) and, without a limit, while the daemon
 * builds missing indexes; the wait ends if the daemon ends, and does not end when the application
 * handles a signal.
 *
 * Returns 0, or a negative errno:
 *   -ENOENT        the source, or penstockd to start, does not exist
 *   -EINVAL        an option or a variable (named) is wrong, or the source is not a dataset
 *   -ENOMEM        the stream does not fit the daemon's memory (the sentence says what would)
 *   -ECONNREFUSED  no daemon is running
 *   -EPERM         the socket or its folder belongs to another user
 *   -EPIPE         the daemon ended meanwhile
 *   -ETIMEDOUT     the daemon is stopped
 *   -EPROTO        the daemon is of another version, or broken
 *   -ENOTSUP       the stream's batches do not have the shape described above
 *   -ESTALE        the state does not fit (the sentence says what differs)
 *   -EBUSY         the group refuses: other options, another state, or a rank that is taken
 *   -EINTR         options.interrupt asked for it */
PENSTOCK_API int penstock_stream_open(
	const struct penstock_options *options, struct penstock_stream **ret_stream);

/* Releases all batches and frees the stream. NULL is allowed. Does not wait for the daemon. */
PENSTOCK_API void penstock_stream_close(struct penstock_stream *stream);

/* What the daemon opened. Never fails and does not block. Function and struct have one name, like
 * stat() and struct stat: in C++ write `struct penstock_stream_info`. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
PENSTOCK_API void penstock_stream_info(
	const struct penstock_stream *stream, struct penstock_stream_info *ret_info);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* One group of the views of a sample, where they are divided into groups (options.view_groups):
 * images of one size, made alike. */
struct penstock_view_group {
	/* The number of its first view, and how many it has: penstock_sample.view counts over all
	 * groups. */
	uint32_t first_view, views;
	/* Pixels of its images, the same in all epochs. */
	uint32_t height, width;
	/* "": it has none. */
	char name[64];
};

/* How many groups of views the stream has; 0: its views are not divided. With groups,
 * penstock_batch's images, image_bytes, height and width are those of the first group,
 * penstock_batch_images gives the others, and info.views counts the views of all groups. Never
 * fails and does not block. */
PENSTOCK_API uint32_t penstock_stream_groups(const struct penstock_stream *stream);

/* Describes a group, from 0. Does not block. Returns 0, or -EINVAL: there is no such group. */
PENSTOCK_API int penstock_stream_group(const struct penstock_stream *stream, uint32_t group,
	struct penstock_view_group *ret_group);

/* The images of a group in a held batch, valid until the batch is released: info.dtype, shape
 * (batch_size x group.views, group.height, group.width, 3), or (batch_size x group.views, 3,
 * group.height, group.width) with info.layout NCHW, without gaps. View v of sample s is row s x
 * group.views + v - group.first_view; its penstock_sample is batch.samples[s x info.views + v].
 * Without groups, the images of group 0 are batch.images. NULL: the batch is not held, or there is
 * no such group. Does not block. */
PENSTOCK_API const void *penstock_batch_images(
	const struct penstock_stream *stream, const struct penstock_batch *batch, uint32_t group);

/* One of the fields that come with a stream's samples (options.fields): bytes beside an image. */
struct penstock_field {
	/* The extension: "txt". */
	char name[64];
	/* The most that a sample has. */
	size_t max_bytes;
};

/* How many fields the stream has; 0: it was opened without any. Never fails and does not block. */
PENSTOCK_API uint32_t penstock_stream_fields(const struct penstock_stream *stream);

/* Describes a field, from 0, in the order in which they were asked for. Does not block. Returns 0,
 * or -EINVAL: there is no such field. */
PENSTOCK_API int penstock_stream_field(
	const struct penstock_stream *stream, uint32_t field, struct penstock_field *ret_field);

/* The bytes of a sample's field in a held batch, valid until the batch is released: *ret_bytes
 * points into shared memory, at a multiple of 8 bytes, and need not end with a zero byte. `sample`
 * counts the batch's samples, not its rows: 0 to info.batch_size - 1. A sample without the field,
 * a row that is marked PENSTOCK_INVALID and one after the last valid sample have 0 bytes. Does not
 * block. Returns 0, or a negative errno:
 *   -EINVAL  the batch is not held, or there is no such field or sample
 *   -EPROTO  the daemon is broken: the length is impossible */
PENSTOCK_API int penstock_batch_field(const struct penstock_stream *stream,
	const struct penstock_batch *batch, uint32_t field, uint32_t sample, const void **ret_bytes,
	size_t *ret_size);

/* The next batch. The caller holds it until it gives it back with penstock_batch_release().
 *
 * Blocks up to `timeout_ms` milliseconds (0: not at all; PENSTOCK_TIMEOUT_DEFAULT;
 * PENSTOCK_FOREVER). Signals do not end the wait.
 *
 * Returns 0; PENSTOCK_END after the last epoch; or a negative errno.
 *
 * After these the stream goes on:
 *   -EAGAIN     no batch is ready (only with timeout 0)
 *   -ETIMEDOUT  no batch came in time. The sentence names the stage that is slow; asking the daemon
 *               for it takes up to 0.2 s more.
 *   -EDEADLK    this trainer holds all slots, so it would wait for itself
 *   -EINTR      options.interrupt asked for it
 *   -EINVAL     timeout_ms is wrong
 *   -EBADF      the stream was opened before fork()
 *
 * After these the stream is over, and every further call returns the same:
 *   -EPIPE      the daemon is gone
 *   -ESHUTDOWN  the daemon was told to end
 *   -EPROTO     the daemon broke the protocol
 *   -ECANCELED  this trainer was detached from its group
 *   -EIO and others, as the sentence says
 *
 * With options.reconnect_ms, -EPIPE and -ESHUTDOWN end the stream only if no other daemon could be
 * reached in that time, if options.restarts allows no more, or if the daemon that was reached
 * refuses the stream or opened another one (-ESTALE, -EBUSY and others of opening). If the stream
 * is "stream:NAME" and a daemon does not know the name, the library asks again until the time is
 * up, and the sentence then names that daemon. `timeout_ms` still limits each call: -ETIMEDOUT and
 * -EAGAIN then say that the library is waiting for a daemon, and the next call goes on waiting. (A
 * call may start a process, which takes some milliseconds.) Time in which a daemon opens the stream
 * and builds an index does not count. Batches that are held meanwhile stay readable until they are
 * released. */
PENSTOCK_API int penstock_stream_next(
	struct penstock_stream *stream, struct penstock_batch *ret_batch, int32_t timeout_ms);

/* Gives a batch back. Its pointers are invalid from then on and are set to NULL. Does not wait for
 * the daemon's answer.
 *
 * Returns 0, also if the daemon has gone meanwhile; or a negative errno:
 *   -EINVAL     the batch is not held (it was released twice)
 *   -ECANCELED  the daemon took the batch back while it was held and filled its memory again,
 *               because this trainer was detached from its group, or its connection to a daemon
 *               that is still running was lost. What the application read may be of another batch
 *               and must not be used. A state taken since `next` gave the batch includes it: resume
 *               from one taken before.
 *   -EBADF      the stream was opened before fork() */
PENSTOCK_API int penstock_batch_release(
	struct penstock_stream *stream, struct penstock_batch *batch);

/* When the daemon had completed the batch: CLOCK_MONOTONIC in nanoseconds, for measuring how long
 * it took from there. 0 if the batch is not held. Does not block. */
PENSTOCK_API uint64_t penstock_batch_ready_ns(
	const struct penstock_stream *stream, const struct penstock_batch *batch);

/* The memory mapping of a held batch, for registering it with a device or for mapping the same
 * pages once more. The mapping stays the library's. Batches with the same `extent` are in the same
 * mapping, and no other mapping ever gets that number. It is unmapped when no batch in it is held
 * and the daemon has withdrawn it or is gone. Does not block. Returns 0; -EINVAL if the batch is
 * not held. */
PENSTOCK_API int penstock_batch_memory(const struct penstock_stream *stream,
	const struct penstock_batch *batch, const void **ret_base, size_t *ret_bytes);

/* Whether this process can write to the stream's memory, for which options.pin_memory asks: 1 if no
 * other trainer can read the stream, otherwise 0. penstock_batch.images stays read-only; a further
 * mapping of its pages (mremap) can be made writable. Does not block. */
PENSTOCK_API int penstock_stream_writable(const struct penstock_stream *stream);

/* A descriptor for event loops that polls readable (POLLIN) when penstock_stream_next may have
 * something. After it woke, call penstock_stream_next with timeout 0 until it returns -EAGAIN. It
 * is the same descriptor for the life of the stream; it also wakes for each step of finding another
 * daemon. It stays the library's: do not read or close it. -EBADF after fork(). */
PENSTOCK_API int penstock_stream_fd(const struct penstock_stream *stream);

/* The loop's position: JSON for options.state, to go on with the batch after the last one that
 * `next` gave (before the first: with the first). Copies a terminated string to `buffer` of `room`
 * bytes and returns its length without the terminating zero. Does not block. -ENOSPC if `room` is
 * too small (512 always suffices); -EBADF after fork(). */
PENSTOCK_API int penstock_stream_state(
	const struct penstock_stream *stream, char *buffer, size_t room);

/* What PENSTOCK_TIMEOUT_DEFAULT means for this stream, in milliseconds or PENSTOCK_FOREVER. */
PENSTOCK_API int32_t penstock_stream_timeout_ms(const struct penstock_stream *stream);

/* Texts from the daemon, allocated with malloc; the caller frees them. They block for one round
 * trip, at most 30 s (-ETIMEDOUT), or until options.interrupt asks for the end (-EINTR). Errors are
 * those of penstock_stream_next, -EPIPE also while the library is waiting for another daemon;
 * -EINVAL if the daemon does not know what is asked for.
 *
 * penstock_stream_classes: class names, one on each line, in the order of their labels.
 * penstock_stream_path: where sample `index` comes from: a file, or SHARD!MEMBER.
 * penstock_stream_samples: a line for each of the samples from `first` on: its label (of several
 * values: with commas between them; -1: none), a space, and its path, in which \\ stands for a
 * backslash and \n for the end of a line. One line at least, and 1,024 at most; fewer where labels
 * are long, so count them and ask for the next ones.
 * penstock_stream_stats: counters and verdict, as JSON. penstock_stream_config: the stream's
 * complete definition, as JSON. penstock_stream_wait: what the stream is waiting for right now: the
 * stage, and the file that it is at. Answers within 0.2 s, otherwise -ETIMEDOUT. */
PENSTOCK_API int penstock_stream_classes(struct penstock_stream *stream, char **ret_lines);
PENSTOCK_API int penstock_stream_path(
	struct penstock_stream *stream, uint64_t index, char **ret_path);
PENSTOCK_API int penstock_stream_samples(
	struct penstock_stream *stream, uint64_t first, char **ret_lines);
PENSTOCK_API int penstock_stream_stats(struct penstock_stream *stream, char **ret_json);
PENSTOCK_API int penstock_stream_config(struct penstock_stream *stream, char **ret_json);
PENSTOCK_API int penstock_stream_wait(struct penstock_stream *stream, char **ret_sentence);

/* Converting a batch's images to tensors, on the CPU.
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
 * The result is (x / 255 - mean) / std, rounded as torchvision's ToTensor and Normalize round it in
 * float32, and once more (to nearest, ties to even) to a shorter dtype; for uint8 it is x itself. A
 * table of these 256 values per channel is the definition, and all kernels equal it bit for bit. */
enum penstock_dtype {
	PENSTOCK_UINT8 = 0,
	PENSTOCK_FLOAT32 = 1,
	PENSTOCK_FLOAT16 = 2,
	PENSTOCK_BFLOAT16 = 3,
};

/* Order in memory. To PyTorch the tensor is (batch, 3, height, width) in both cases. */
enum penstock_layout {
	/* "channels_last", as in the batch. */
	PENSTOCK_NHWC = 0,
	PENSTOCK_NCHW = 1,
};

struct penstock_convert_options {
	/* Size of this struct, set by penstock_convert_options_init. */
	size_t size;
	/* Default: FLOAT32, NHWC. */
	uint32_t dtype, layout;
	/* Default: ImageNet's, 0.485 0.456 0.406 and 0.229 0.224 0.225. */
	float mean[3], std[3];
};

/* Sets all defaults, and `size` as given, as penstock_options_init_size does. */
PENSTOCK_API void penstock_convert_options_init_size(
	struct penstock_convert_options *options, size_t size);
#define penstock_convert_options_init(options) \
	penstock_convert_options_init_size((options), sizeof *(options))

struct penstock_convert;

/* Prepares a conversion, in a few microseconds. On success *ret_convert is the caller's, who frees
 * it with penstock_convert_free(). Thread: any. Does not block. The variable PENSTOCK_KERNELS
 * chooses the kernels, as it does for the daemon.
 *
 * Returns 0; -EINVAL an option is wrong (named): an unknown dtype or layout, a mean or std that is
 * not finite, a std of 0, or an unknown name in PENSTOCK_KERNELS; -ENOTSUP this processor does not
 * have the kernels of PENSTOCK_KERNELS; -ENOMEM. */
PENSTOCK_API int penstock_convert_new(
	const struct penstock_convert_options *options, struct penstock_convert **ret_convert);

/* Bytes of one converted row of height x width pixels. */
PENSTOCK_API size_t penstock_convert_row_bytes(
	const struct penstock_convert *convert, uint32_t height, uint32_t width);

/* Converts `count` rows, uint8 of shape (count, height, width, 3), to `out`, which has room for
 * count x penstock_convert_row_bytes. `out` may be aligned to 64 bytes or not, and must not overlap
 * `rows`. Reads and writes nothing beyond them. Never fails. Thread: any, several at once. */
PENSTOCK_API void penstock_convert_rows(const struct penstock_convert *convert, const void *rows,
	uint32_t count, uint32_t height, uint32_t width, void *out);

/* Frees it. NULL is allowed. */
PENSTOCK_API void penstock_convert_free(struct penstock_convert *convert);

/* MixUp, CutMix, RandomErasing after the conversion, and soft labels, on the CPU.
 *
 *   penstock_mix_plan(mix, &info, &batch, rows);
 *   penstock_convert_rows(convert, batch.images, batch.count * info.views, batch.height,
 *           batch.width, tensor);
 *   uint32_t count = batch.count * info.views;
 *   penstock_mix_targets(mix, rows, count, info.views, batch.labels, targets);
 *   penstock_batch_release(stream, &batch);
 *   penstock_mix_apply(mix, rows, count, &images);
 *
 * The random draws follow from the stream's seed, the epoch and the position of a row's sample (for
 * mixing, of the batch's first sample), as in penstock/cuda.h, and are the same there: a run goes
 * on in the same way whenever and wherever it is resumed. Each row is paired with the one before
 * it, the first with the last, as in MixUp and CutMix of torchvision.transforms.v2. Rows are erased
 * first and then mixed.
 *
 * With several views there are more rows than labels: all views of a batch are mixed with one
 * lambda and one rectangle, each with the partner's view of the same number, so that one soft label
 * is true of all views of a sample. Erasing is drawn for each view.
 *
 * Images are in the caller's own memory, never in a batch's, which other trainers may be
 * reading. */

/* How batches are mixed from an epoch on. */
struct penstock_mix_epoch {
	/* From this epoch on, until the next entry's. */
	uint64_t epoch;
	/* As in struct penstock_mix_options, all of them. */
	double mixup, cutmix, mix, mix_switch;
	float smoothing;
	/* 0. */
	uint32_t reserved;
};

struct penstock_mix_options {
	/* Size of this struct, set by penstock_mix_options_init. */
	size_t size;
	/* 0: off. Alpha of their Beta distributions, 0.01 to 100. */
	double mixup, cutmix;
	/* Default: 1. Probability that a batch is mixed at all. */
	double mix;
	/* Default: 0.5. If both are on: probability of CutMix. */
	double mix_switch;
	/* Default: 0. Probability of RandomErasing, as torchvision's. */
	double erase;
	/* Default: 0.02 0.33 of the area; 0.3 3.3, height to width. */
	double erase_scale[2], erase_ratio[2];
	/* Default: 0 0 0. Per channel, in units of the images: after normalizing. */
	float erase_value[3];
	/* Default: 0. 1: standard normal noise in place of erase_value. */
	int32_t erase_random;
	/* Default: 0. Classes of the soft labels that penstock_mix_targets writes, 1 to 2^24. */
	uint32_t classes;
	/* Default: 0. Label smoothing, as in torch.nn.CrossEntropyLoss, 0 to 1. */
	float smoothing;
	/* Default: NULL. What changes with the epoch: `epoch_count` entries, at most 65,536, in
	 * ascending order of their epochs. The options above are for epochs before the first entry.
	 * penstock_mix_new copies them. */
	const struct penstock_mix_epoch *epochs;
	size_t epoch_count;
};

/* Sets all defaults, and `size` as given, as penstock_options_init_size does. */
PENSTOCK_API void penstock_mix_options_init_size(struct penstock_mix_options *options, size_t size);
#define penstock_mix_options_init(options) \
	penstock_mix_options_init_size((options), sizeof *(options))

/* penstock_mix_row.flags. */
enum { PENSTOCK_ROW_FLIPPED = 1, PENSTOCK_ROW_ERASED = 2, PENSTOCK_ROW_MIXED = 4 };

/* What is done to one row of images; 64 bytes, the same as struct penstock_cuda_row. Rectangles are
 * in pixels. The mixed label is weight x label of the row's sample + partner_weight x the
 * partner's. */
struct penstock_mix_row {
	/* Of the sample in its epoch's order. */
	uint64_t position;
	/* PENSTOCK_ROW_ERASED, _MIXED; only devices use _FLIPPED. */
	uint32_t flags;
	/* Its low 32 bits. */
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
	/* Which of the sample's views. */
	uint32_t view;
	/* The seed of the stream's draws (seed and salt), low half first: for noise. */
	uint32_t seed[2];
};

struct penstock_mix;

/* Prepares mixing. On success *ret_mix is the caller's, who frees it with penstock_mix_free().
 * Thread: any. Does not block. Returns 0; -EINVAL an option is wrong (the sentence names it and
 * says what is allowed); -ENOMEM. */
PENSTOCK_API int penstock_mix_new(
	const struct penstock_mix_options *options, struct penstock_mix **ret_mix);

/* Frees it. NULL is allowed. */
PENSTOCK_API void penstock_mix_free(struct penstock_mix *mix);

/* Draws what to do with a held batch: fills batch->count x info->views rows. Never fails. Thread of
 * this and of the functions below: any, several at once; `mix` does not change. */
PENSTOCK_API void penstock_mix_plan(const struct penstock_mix *mix,
	const struct penstock_stream_info *info, const struct penstock_batch *batch,
	struct penstock_mix_row *ret_rows);

/* Images as penstock_convert_rows writes them. */
struct penstock_mix_images {
	/* The caller's own, aligned to an element. */
	void *memory;
	/* enum penstock_dtype except UINT8; enum penstock_layout. */
	uint32_t dtype, layout;
	uint32_t height, width;
};

/* Erases and mixes `count` rows in place: all rows that were planned together. Computes in float32,
 * rounds each operation, and rounds the result once more (to nearest, ties to even) to a shorter
 * dtype. float32 equals the device's result bit for bit, except for noise, whose last bits depend
 * on the machine. A shorter dtype was already rounded by the conversion, while the device rounds it
 * only once.
 *
 * Returns 0; -EINVAL a wrong dtype or layout, rows that were not planned together (the sentence
 * says which), a rectangle beyond the image, or memory of a batch: nothing is changed then. */
PENSTOCK_API int penstock_mix_apply(const struct penstock_mix *mix,
	const struct penstock_mix_row *rows, uint32_t count,
	const struct penstock_mix_images *images);

/* Writes soft labels to `targets`, float32 of shape (count / views, classes), from `labels`, int64
 * of shape (count / views,). Labels are smoothed, then mixed. A sample without a label (below 0)
 * among others adds nothing; a stream has labels for all samples or for none.
 *
 * Returns 0; -EINVAL options.classes was not set, a label is not below it, no sample has a label,
 * or a partner is not among the rows (the sentence says which): nothing is written then. */
PENSTOCK_API int penstock_mix_targets(const struct penstock_mix *mix,
	const struct penstock_mix_row *rows, uint32_t count, uint32_t views, const int64_t *labels,
	float *targets);

/* The same for labels that are floats (multi-hot, or values): `values` and `targets` are float32 of
 * shape (count / views, width) and must not overlap. The labels are mixed but not smoothed. */
PENSTOCK_API int penstock_mix_values(const struct penstock_mix *mix,
	const struct penstock_mix_row *rows, uint32_t count, uint32_t views, const float *values,
	uint32_t width, float *targets);

/* The daemon itself, without a stream. These never start a daemon. `socket` NULL: as for a stream;
 * if no daemon is there, the private daemon of another of the user's jobs, if exactly one is
 * running.
 *
 * Thread: any. They block until the daemon answers. -ECONNREFUSED no daemon is running; -EBUSY
 * several private daemons are (the sentence lists their sockets); -ETIMEDOUT the daemon does not
 * answer.
 *
 * penstock_daemon_status: what the daemon is doing, as JSON allocated with malloc; the caller frees
 * it. */
PENSTOCK_API int penstock_daemon_status(const char *socket, char **ret_json);

/* Drains and ends the daemon; returns when it has ended, at most 10 s later (-ETIMEDOUT). */
PENSTOCK_API int penstock_daemon_stop(const char *socket);

/* Which daemon that is: copies the path of its socket to `buffer`, for further calls and for
 * options.socket. 108 bytes always suffice; otherwise -ENOSPC. */
PENSTOCK_API int penstock_daemon_socket(const char *socket, char *buffer, size_t room);

/* Pid of the stream's daemon, for measuring it from outside. 0 if the daemon is in a pid namespace
 * that this process cannot see, or while the library is waiting for another daemon. */
PENSTOCK_API int32_t penstock_stream_daemon_pid(const struct penstock_stream *stream);

/* From the next epoch on, epochs consist of these samples: `indices` is as options.indices, NULL
 * means all samples. For curricula, hard examples and active learning. Call it between epochs:
 * before the first batch, or after the batch with PENSTOCK_LAST. Epochs go on being counted, and
 * penstock_stream_info says how many samples and batches they have now. A state knows the samples
 * by a hash: it continues only a stream with the same indices. Every rank of a job calls it, with
 * equal indices. Batches that are held stay valid.
 *
 * Thread: that of the stream. Blocks as penstock_stream_open. Returns 0, or a negative errno:
 *   -EBUSY        the stream is within an epoch, or other trainers read the same batches
 *   -EINVAL       the list is not one, or does not fit; or the configuration defines the stream
 *   -EAGAIN       the daemon is gone, and another one was not found yet
 *   others        as penstock_stream_open
 * After a refusal, the stream continues as before; if its daemon was lost meanwhile,
 * penstock_stream_next reports or repairs that. */
PENSTOCK_API int penstock_stream_set_indices(struct penstock_stream *stream, const char *indices);

/* How many times the stream has gone on with another daemon in place of one that was gone
 * (options.reconnect_ms). If that is above 0, *ret_gone_pid and *ret_pid are the pids of the last
 * one that was lost and of its successor, each 0 where this process cannot see it; otherwise they
 * are unchanged. Never fails and does not block. Thread: any, also while another one uses the
 * stream. */
PENSTOCK_API uint32_t penstock_stream_replaced(
	const struct penstock_stream *stream, int32_t *ret_gone_pid, int32_t *ret_pid);

#ifdef __cplusplus
}
#endif
#endif
