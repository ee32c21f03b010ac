/* container_tar: WebDataset tars: groups the members of a tar into samples by WebDataset's rule.
 *
 * A member's key is its path cut at the first dot of its last part; what follows that dot is its
 * extension. Members that follow each other and have the same key are one sample. A leading "./" is
 * not part of the key, so that `tar -C folder -c .` gives the keys of the folder. Left out: members
 * whose last part begins with a dot or has none, everything below "__MACOSX", and extensions other
 * than those of images (image_names.h), cls and json (in any case), and than those of the fields
 * that were asked for (fields.h). A sample without an image is left out as a whole.
 *
 * A sample's image is its .jpg, .jpeg or .png. Only a sample without one may have an image of
 * another type: beside a photograph, a .tif or .pgm is a mask or a depth map. An extension that is
 * asked for as a field is not that of an image.
 *
 * Either all samples have a label or none has. With labels AUTO the first sample decides: its .cls
 * if it has one, or else its .json if that has a label, or else nothing is labeled; every later
 * sample must agree. */
#include "dataset/container/container.h"

#include "base/util.h"
#include "dataset/container/image_names.h"
#include "dataset/container/tar.h"
#include "labels/label.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* PART_SPARE: an image of another type than JPEG and PNG. */
enum part { PART_IMAGE, PART_SPARE, PART_CLS, PART_JSON, PARTS, PART_DOTTED, PART_OTHER };

/* One member of the current sample. */
struct piece {
	bool present;
	uint64_t offset, size;
	uint8_t format;
	bool sparse;
	size_t name_size;
	char name[TAR_NAME_MAX + 1];
};

struct group {
	const struct index_job *job;
	struct tar_reader reader;
	bool open; /* a sample has begun */
	bool decided; /* `source` is decided */
	enum dataset_labels source;
	uint64_t members, dotted, labelless;
	size_t key_size;
	char key[TAR_NAME_MAX + 1];
	struct piece piece[PARTS];
	char spare[TAR_NAME_MAX + 1]; /* the sample's second image of another type; "": none */
	struct index_field field[FIELDS_MAX];
	char first[TAR_NAME_MAX + 1]; /* the image whose sample decided */
	char orphan[TAR_NAME_MAX + 1]; /* the first label without an image; "": none */
	struct label_found found; /* scratch space for the label of a rule */
};

/* A member's name in parts, which point into it. */
struct parts {
	const char *key, *extension;
	size_t key_size;
};

static bool is_resource_fork(const char *path)
{
	for (const char *at = path; (at = strstr(at, "__MACOSX")); at += 8)
		if ((at == path || at[-1] == '/') && (at[8] == '/' || at[8] == 0))
			return true;
	return false;
}

static bool name_split(const char *name, struct parts *ret)
{
	while (name[0] == '.' && name[1] == '/')
		name += 2;
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	const char *dot = strchr(base, '.');
	if (!dot || dot == base || is_resource_fork(name))
		return false;
	ret->key = name;
	ret->key_size = (size_t)(dot - name);
	ret->extension = dot + 1;
	return true;
}

static bool tar_key(const char *name, const char **ret_key, size_t *ret_size)
{
	struct parts parts;
	if (!name_split(name, &parts))
		return false;
	*ret_key = parts.key;
	*ret_size = parts.key_size;
	return true;
}

static enum part extension_part(const char *extension, uint8_t *ret_format)
{
	const char *last = strrchr(extension, '.');
	const char *tail = last ? last + 1 : extension;
	*ret_format = image_names_tar(tail);
	if (*ret_format)
		return last ? PART_DOTTED : *ret_format == SAMPLE_OTHER ? PART_SPARE : PART_IMAGE;
	if (!strcasecmp(extension, "cls"))
		return PART_CLS;
	return strcasecmp(extension, "json") ? PART_OTHER : PART_JSON;
}

/* Reads a label member into `buffer`. A member of more than `most` bytes is not a label. */
static int piece_read(struct group *group, const struct piece *piece, size_t most, char *buffer,
	struct fault *fault)
{
	if (piece->size > most)
		return fault_set(fault, -EINVAL, "%s!%s has %llu bytes: a label has at most %zu",
			group->job->path, piece->name, (unsigned long long)piece->size, most);
	return tar_read(&group->reader, piece->offset, buffer, (size_t)piece->size, fault);
}

static int piece_fault(
	const struct group *group, const struct piece *piece, int rc, struct fault *fault)
{
	char why[256];
	(void)snprintf(why, sizeof why, "%s", fault ? fault->text : "");
	return fault_set(fault, rc,
		"%s!%s: %s; to ignore labels, ask for labels: none (--labels none)",
		group->job->path, piece->name, why);
}

static int cls_label(struct group *group, int32_t *ret, struct fault *fault)
{
	const struct piece *piece = &group->piece[PART_CLS];
	char text[LABEL_CLS_MAX];
	int rc = piece_read(group, piece, sizeof text, text, fault);
	if (rc < 0)
		return rc;
	rc = label_from_cls(text, (size_t)piece->size, ret, fault);
	return rc < 0 ? piece_fault(group, piece, rc, fault) : 0;
}

/* Reads the .json into an allocated text, which is not zero-terminated. */
static int json_read(struct group *group, char **ret, struct fault *fault)
{
	const struct piece *piece = &group->piece[PART_JSON];
	*ret = malloc(UTIL_MIN(piece->size, (uint64_t)LABEL_JSON_MAX) + 1);
	if (!*ret)
		return fault_set(
			fault, -ENOMEM, "no memory for %s!%s", group->job->path, piece->name);
	return piece_read(group, piece, LABEL_JSON_MAX, *ret, fault);
}

/* 0; LABEL_E_NONE if the sample has no .json or no label in it; or a fault. */
static int json_label(struct group *group, int32_t *ret, struct fault *fault)
{
	const struct piece *piece = &group->piece[PART_JSON];
	if (!piece->present)
		return LABEL_E_NONE;
	cleanup(free_ptr) char *text = NULL;
	int rc = json_read(group, &text, fault);
	if (rc < 0)
		return rc;
	rc = label_from_json(text, (size_t)piece->size, ret, fault);
	return rc < 0 ? piece_fault(group, piece, rc, fault) : rc;
}

static int fault_mixture(const struct group *group, bool has, struct fault *fault)
{
	/* A .json is looked into only where labels come from .json. */
	if (!has && group->source == DATASET_LABELS_JSON && group->piece[PART_JSON].present)
		return fault_set(fault, -EINVAL,
			"%s!%s has neither \"label\" nor \"cls\", but %s before it has a label in "
			"its "
			".json: label all samples in the same way or none, or ask for labels: none",
			group->job->path, group->piece[PART_JSON].name, group->first);
	return fault_set(fault, -EINVAL,
		"%s!%s has %s label%s, but %s before it has %s%s: label all samples in the same "
		"way or none, or ask for labels: none",
		group->job->path, group->piece[PART_IMAGE].name, has ? "a" : "no",
		has ? "" : " beside it", group->first, has ? "none" : "one",
		has                                   ? ""
		: group->source == DATASET_LABELS_CLS ? " (.cls)"
						      : " (.json)");
}

static int label_auto(struct group *group, int32_t *ret, struct fault *fault)
{
	bool cls = group->piece[PART_CLS].present;
	int json = LABEL_E_NONE;
	/* A .json beside a .cls is metadata. */
	if (!cls && !(group->decided && group->source == DATASET_LABELS_CLS)) {
		json = json_label(group, ret, fault);
		if (json < 0)
			return json;
	}
	if (!group->decided) {
		group->decided = true;
		group->source = cls         ? DATASET_LABELS_CLS
				: json == 0 ? DATASET_LABELS_JSON
					    : DATASET_LABELS_NONE;
		memcpy(group->first, group->piece[PART_IMAGE].name, sizeof group->first);
	}
	if (group->source == DATASET_LABELS_NONE) {
		*ret = -1;
		group->labelless += group->piece[PART_JSON].present;
		return cls || json == 0 ? fault_mixture(group, true, fault) : 0;
	}
	if (group->source == DATASET_LABELS_CLS)
		return cls ? cls_label(group, ret, fault) : fault_mixture(group, false, fault);
	if (cls) /* earlier labels came from .json, so this one must too */
		json = json_label(group, ret, fault);
	return json > 0 ? fault_mixture(group, false, fault) : json;
}

static int fault_unlabelled(const struct group *group, const char *what, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s!%s has no %s beside it, but its label must come from there", group->job->path,
		group->piece[PART_IMAGE].name, what);
}

static int sample_label(struct group *group, int32_t *ret, struct fault *fault)
{
	switch (group->job->asked) {
	case DATASET_LABELS_NONE:
		*ret = -1;
		return 0;
	case DATASET_LABELS_CLS:
		return group->piece[PART_CLS].present ? cls_label(group, ret, fault)
						      : fault_unlabelled(group, ".cls", fault);
	case DATASET_LABELS_JSON: {
		int rc = json_label(group, ret, fault);
		return rc > 0 ? fault_unlabelled(group, ".json with a \"label\" or \"cls\"", fault)
			      : rc;
	}
	default:
		return label_auto(group, ret, fault);
	}
}

/* Takes the label out of the .json, by the rule's path. */
static int sample_path(struct group *group, struct index_sample *sample, struct fault *fault)
{
	const struct piece *piece = &group->piece[PART_JSON];
	const struct index_job *job = group->job;
	if (!piece->present)
		return fault_unlabelled(group, ".json", fault);
	enum label_type asked = labels_type(job->labels);
	/* A program that writes JSON may write a whole number without a fraction. */
	if (asked == LABEL_TYPE_AUTO && job->writer->head.label_type == LABEL_TYPE_FLOAT)
		asked = LABEL_TYPE_FLOAT;
	cleanup(free_ptr) char *text = NULL;
	int rc = json_read(group, &text, fault);
	if (rc < 0)
		return rc;
	rc = labels_from_json(job->labels, text, (size_t)piece->size, asked, &group->found, fault);
	if (rc == 0)
		rc = index_sample_write(job, sample, &group->found, fault);
	return rc < 0 && !job->writer->error && !job->first->blamed
		       ? piece_fault(group, piece, rc, fault)
		       : rc;
}

static int sample_rule(struct group *group, const struct index_record *record, struct fault *fault)
{
	const struct piece *image = &group->piece[PART_IMAGE];
	struct index_sample sample = {
		image->name, group->key, image->name_size, group->key_size, *record};
	return group->job->asked == DATASET_LABELS_PATH
		       ? sample_path(group, &sample, fault)
		       : index_sample_manifest(
				 group->job, &sample, group->job->path, &group->found, fault);
}

/* Hands the places of the fields to the writer, which puts them after the name and the label. */
static int fields_hand(struct group *group, struct fault *fault)
{
	const struct piece *image = &group->piece[PART_IMAGE];
	struct index_writer *writer = group->job->writer;
	memcpy(writer->field, group->field, sizeof writer->field);
	if (image->name_size <= index_writer_room(writer))
		return 0;
	return fault_set(fault, -EINVAL,
		"%s!%.80s...: its name has %zu bytes, but an index with %u fields has room for "
		"only %zu",
		group->job->path, image->name, image->name_size, writer->head.field_count,
		index_writer_room(writer));
}

static int sample_write(struct group *group, struct fault *fault)
{
	const struct piece *image = &group->piece[PART_IMAGE];
	int fits = fields_hand(group, fault);
	if (fits < 0)
		return fits;
	struct index_record record = {.offset = image->offset,
		.size = (uint32_t)image->size,
		.format = image->format,
		.label = -1};
	if (group->job->labels)
		return sample_rule(group, &record, fault);
	int rc = sample_label(group, &record.label, fault);
	if (rc < 0)
		return rc;
	rc = index_writer_name(group->job->writer, image->name, image->name_size, &record);
	return rc < 0 ? rc
		      : index_writer_add(group->job->writer, &record, group->key, group->key_size);
}

static int twice_fault(
	const struct group *group, const char *one, const char *other, struct fault *fault)
{
	const char *path = group->job->path;
	return fault_set(fault, -EINVAL,
		"%s!%s and %s!%s belong to the same sample (key %.*s): a sample has one image, and "
		"one label of each kind",
		path, one, path, other, (int)group->key_size, group->key);
}

/* What is checked of a member that has become part of a sample. */
static int piece_check(
	const struct group *group, const struct piece *piece, bool image, struct fault *fault)
{
	if (piece->sparse)
		return fault_set(fault, -EINVAL,
			"%s!%s is a sparse member, which cannot be read in place: pack the shard "
			"again without --sparse",
			group->job->path, piece->name);
	if (image && piece->size > UINT32_MAX)
		return fault_set(fault, -EINVAL, "%s!%s has %llu bytes: an image has at most %u",
			group->job->path, piece->name, (unsigned long long)piece->size, UINT32_MAX);
	return 0;
}

/* The image of another type becomes the sample's image if it has no .jpg, .jpeg or .png. */
static int spare_take(struct group *group, struct fault *fault)
{
	struct piece *image = &group->piece[PART_IMAGE], *spare = &group->piece[PART_SPARE];
	if (image->present || !spare->present)
		return 0;
	if (group->spare[0])
		return twice_fault(group, spare->name, group->spare, fault);
	int rc = piece_check(group, spare, true, fault);
	if (rc == 0)
		*image = *spare;
	return rc;
}

/* Ends the current sample. */
static int sample_end(struct group *group, struct fault *fault)
{
	if (!group->open)
		return 0;
	int rc = spare_take(group, fault);
	if (rc < 0)
		return rc;
	if (group->piece[PART_IMAGE].present)
		rc = UTIL_MIN(sample_write(group, fault), 0); /* 1: the manifest leaves it out */
	else if (!group->orphan[0] && group->piece[PART_CLS].present)
		memcpy(group->orphan, group->piece[PART_CLS].name, sizeof group->orphan);
	for (int i = 0; i < PARTS; i++)
		group->piece[i].present = false;
	memset(group->field, 0, sizeof group->field);
	group->spare[0] = 0;
	group->open = false;
	return rc;
}

static int sample_begin(struct group *group, const struct parts *parts, struct fault *fault)
{
	if (group->open && parts->key_size == group->key_size &&
		!memcmp(parts->key, group->key, parts->key_size))
		return 0;
	int rc = sample_end(group, fault);
	if (rc < 0)
		return rc;
	memcpy(group->key, parts->key, parts->key_size);
	group->key_size = parts->key_size;
	group->open = true;
	return 0;
}

static int piece_take(struct group *group, enum part part, const struct tar_member *member,
	uint8_t format, struct fault *fault)
{
	struct piece *piece = &group->piece[part];
	if (piece->present && part != PART_SPARE)
		return twice_fault(group, piece->name, member->name, fault);
	if (piece->present) {
		memcpy(group->spare, member->name, member->name_size + 1);
		return 0;
	}
	piece->present = true;
	piece->sparse = member->kind == TAR_SPARSE;
	piece->offset = member->offset;
	piece->size = member->size;
	piece->format = format;
	piece->name_size = member->name_size;
	memcpy(piece->name, member->name, member->name_size + 1);
	return part == PART_SPARE ? 0 : piece_check(group, piece, part == PART_IMAGE, fault);
}

/* Notes the member's place if it is a field that was asked for. 1: it is. */
static int field_take(struct group *group, const char *extension, const struct tar_member *member,
	struct fault *fault)
{
	const struct field_list *fields = group->job->fields;
	const char *path = group->job->path;
	const uint32_t count = fields ? fields->count : 0;
	uint32_t i = 0;
	while (i < count && strcmp(fields->at[i].name, extension) != 0)
		i++;
	if (i == count)
		return 0;
	struct index_field *field = &group->field[i];
	if (field->present)
		return fault_set(fault, -EINVAL,
			"%s!%s is there twice: a sample has one member of each field", path,
			member->name);
	if (member->kind == TAR_SPARSE)
		return fault_set(fault, -EINVAL,
			"%s!%s is a sparse member, which cannot be read in place: pack the shard "
			"again without --sparse",
			path, member->name);
	*field = (struct index_field){.offset = member->offset,
		.size = (uint32_t)UTIL_MIN(member->size, (uint64_t)UINT32_MAX),
		.present = 1};
	return 1;
}

static int member_take(struct group *group, const struct tar_member *member, struct fault *fault)
{
	struct parts parts;
	uint8_t format = 0;
	if (member->kind == TAR_OTHER)
		return 0;
	group->members++;
	if (!name_split(member->name, &parts))
		return 0;
	int rc = sample_begin(group, &parts, fault);
	if (rc < 0)
		return rc;
	rc = field_take(group, parts.extension, member, fault);
	if (rc < 0)
		return rc;
	enum part part = extension_part(parts.extension, &format);
	group->dotted += part == PART_DOTTED;
	if (rc > 0 && part == PART_SPARE)
		return 0;
	return part < PARTS ? piece_take(group, part, member, format, fault) : 0;
}

/* Labels that do not follow their images would go unnoticed if no image had one. */
static int orphans_check(const struct group *group, struct fault *fault)
{
	if (group->job->asked != DATASET_LABELS_AUTO || !group->decided ||
		group->source != DATASET_LABELS_NONE || !group->orphan[0])
		return 0;
	return fault_set(fault, -EINVAL,
		"%s!%s is a label without an image, and no image has a label: the members of a "
		"sample must follow each other (pack with --sort=name), or ask for labels: none",
		group->job->path, group->orphan);
}

static int group_run(struct group *group, struct fault *fault)
{
	const struct index_job *job = group->job;
	struct tar_member member;
	int rc;
	while ((rc = tar_next(&group->reader, &member, fault)) > 0) {
		rc = member_take(group, &member, fault);
		if (rc == 0)
			rc = index_progress_step(
				job->progress, job->writer->head.samples, member.offset, fault);
		if (rc < 0)
			return rc;
	}
	if (rc == 0)
		rc = sample_end(group, fault);
	return rc < 0 ? rc : orphans_check(group, fault);
}

static int tar_index(const struct index_job *job, struct fault *fault)
{
	if (job->asked == DATASET_LABELS_FOLDER)
		return fault_set(fault, -EINVAL,
			"%s is a tar: its labels come from .cls or .json members, not from class "
			"folders",
			job->path);
	cleanup(free_ptr) struct group *group = calloc(1, sizeof *group);
	if (!group)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	group->job = job;
	tar_init(&group->reader, job->blob, job->size, job->path);
	int rc = group_run(group, fault);
	struct index_head *head = &job->writer->head;
	enum tar_end end = TAR_END_UNKNOWN;
	if (rc == 0)
		rc = tar_end_read(&group->reader, &end, &head->tail_at, fault);
	tar_deinit(&group->reader);
	head->tail = end;
	head->members = group->members;
	head->dotted = group->dotted;
	head->labelless = group->labelless;
	head->source = job->asked == DATASET_LABELS_AUTO && group->decided ? group->source
		       : job->asked == DATASET_LABELS_AUTO ? (uint32_t)DATASET_LABELS_NONE
							   : (uint32_t)job->asked;
	return rc;
}

/* Names the first file of a tar; writes nothing if there is none. */
static void first_member(const struct container_empty *empty, char *buffer, size_t room)
{
	cleanup(free_ptr) struct tar_reader *reader = malloc(sizeof *reader);
	struct tar_member member;
	if (!empty->blob || !reader)
		return;
	tar_init(reader, empty->blob, empty->size, empty->path);
	int rc;
	do
		rc = tar_next(reader, &member, NULL);
	while (rc > 0 && member.kind == TAR_OTHER);
	if (rc > 0)
		(void)snprintf(buffer, room, ", the first is %.400s", member.name);
	tar_deinit(reader);
}

static int tar_empty(const struct container_empty *empty, struct fault *fault)
{
	char first[512] = "", dotted[96] = "";
	if (empty->members)
		first_member(empty, first, sizeof first);
	if (empty->dotted)
		(void)snprintf(dotted, sizeof dotted,
			" (including %llu with a second dot before the extension)",
			(unsigned long long)empty->dotted);
	return fault_set(fault, -EINVAL,
		"%s%s: no images among %llu members%s%s: expected KEY.jpg or another "
		"of " IMAGE_NAMES_TAR ", without a dot in KEY",
		empty->path, empty->shards > 1 ? " and the tars after it" : "",
		(unsigned long long)empty->members, dotted, first);
}

static void tar_left_out(uint64_t count, const char *example, char *ret_text, size_t room)
{
	(void)snprintf(ret_text, room,
		"%llu images (%s) were left out: their names have a second dot before the "
		"extension, which means another kind of member to WebDataset",
		(unsigned long long)count, example);
}

const struct container container_tar = {
	.name = "WebDataset tar",
	.fields = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_CLS | 1 << DATASET_LABELS_JSON |
		  1 << DATASET_LABELS_PATH | 1 << DATASET_LABELS_MANIFEST,
	.joint = "!",
	.naming = "a member's name, its key, or SHARD!MEMBER",
	.index = tar_index,
	.key = tar_key,
	.empty = tar_empty,
	.left_out = tar_left_out,
};
