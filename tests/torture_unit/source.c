/* Scenarios of the source stage: indexes built and read, labels of every kind, both engines,
 * entry point files, the shelf. */
#include "torture_unit/data.h"
#include "torture_unit/torture.h"

#include "base/hash.h"
#include "base/host/ledger.h"
#include "dataset/dataset.h"
#include "dataset/sidecar.h"
#include "fetch/fetch.h"
#include "labels/label_rule.h"
#include "order/order.h"
#include "stream/shelf.h"

#include <errno.h>
#include <semaphore.h>

/* ---- datasets ---- */

static void refuse(int code, const struct fault *fault)
{
	torture_refused(code, fault->text);
}

/* Whether what was read is the image that data.h made. */
static bool is_image(uint64_t number, const uint8_t *bytes, size_t size)
{
	struct bytes image = data_image((unsigned)number);
	bool same = image.size == size && memcmp(image.data, bytes, size) == 0;
	free(image.data);
	return same;
}

/* Folders are sorted by class: which of data.h's images is at a place. */
static uint64_t image_of(const struct dataset *dataset, uint64_t number)
{
	return dataset_kind(dataset) == DATASET_FOLDER ? number % 4 * 3 + number / 4 : number;
}

static int read_one(const struct dataset *dataset, uint64_t number, struct fault *fault)
{
	struct sample sample;
	char path[4600];
	static uint8_t bytes[1 << 17];
	int code = dataset_sample(dataset, number, &sample, fault);
	if (code == 0)
		code = dataset_read(dataset, &sample, bytes, sizeof bytes, fault);
	if (code == 0)
		code = dataset_path(dataset, number, path, sizeof path, fault);
	if (code < 0)
		return code;
	torture_off();
	TORTURE_WANT(is_image(image_of(dataset, number), bytes, sample.size));
	if (dataset_label_type(dataset) == LABEL_TYPE_CLASS && dataset_labelled(dataset))
		TORTURE_WANT(sample.label == (int64_t)(image_of(dataset, number) % 3));
	torture_on();
	return 0;
}

static int read_all(const struct dataset *dataset, struct fault *fault)
{
	float values[8];
	int code = 0;
	torture_off();
	TORTURE_WANT(dataset_count(dataset) == DATA_IMAGES);
	torture_on();
	for (uint64_t n = 0; n < DATA_IMAGES && code == 0; n++) {
		code = read_one(dataset, n, fault);
		if (code == 0 && dataset_label_type(dataset) != LABEL_TYPE_CLASS)
			code = dataset_sample_values(dataset, n, values, fault);
	}
	return code;
}

/* Opens and reads, and does so once more with the index that the first time wrote. */
static void open_twice(const char *name, const struct label_rule *rule, bool beside)
{
	struct dataset_options options = {
		.cache_dir = torture_own("cache/below"), .rule = rule, .index_in_cache = !beside};
	uint64_t fingerprint = 0;
	torture_on();
	for (int i = 0; i < 2; i++) {
		struct fault fault = {""};
		struct dataset *dataset = NULL;
		int code = dataset_open(name, &options, &dataset, &fault);
		if (code == 0) {
			code = read_all(dataset, &fault);
			TORTURE_WANT(i == 0 || !fingerprint ||
				     fingerprint == dataset_fingerprint(dataset));
			fingerprint = dataset_fingerprint(dataset);
			dataset_free(dataset);
		}
		if (code < 0) {
			refuse(code, &fault);
			torture_on();
		}
	}
	torture_over();
	/* What they left behind is good: nothing fails any more. */
	struct fault fault = {""};
	struct dataset *dataset = NULL;
	if (dataset_open(name, &options, &dataset, &fault) < 0 || read_all(dataset, &fault) < 0)
		torture_wrong("afterwards: %s", fault.text);
	torture_off();
	TORTURE_WANT(!dataset || !fingerprint || dataset_fingerprint(dataset) == fingerprint);
	dataset_free(dataset);
}

static void make_folder(void)
{
	data_folder(torture_shared, "set");
}

static void run_folder(void)
{
	open_twice(torture_given("set"), NULL, false);
}

static void make_cls(void)
{
	data_tars(torture_shared, "t", DATA_CLS);
}

static void run_tars(void)
{
	open_twice(torture_given("t-*.tar"), NULL, false);
}

static void make_json(void)
{
	data_tars(torture_shared, "t", DATA_JSON);
}

static void run_json(void)
{
	open_twice(torture_given("t-{0..1}.tar"), NULL, false);
}

/* Beside the shards, which are the run's own. */
static void run_beside(void)
{
	data_tars(torture_room, "t", DATA_NONE);
	open_twice(torture_own("t-*.tar"), NULL, true);
}

static struct label_rule rule_of(enum dataset_labels from, enum label_type type)
{
	return (struct label_rule){.from = from, .type = type};
}

static void make_path(void)
{
	data_tars(torture_shared, "t", DATA_JSON_LIST);
	fixture_file(torture_shared, "names.txt", "all\nt0\nt1\nt2\n");
}

static void run_path(void)
{
	struct label_rule rule = rule_of(DATASET_LABELS_PATH, LABEL_TYPE_MULTI_HOT);
	(void)strcpy(rule.json, "tags");
	(void)snprintf(rule.classes, sizeof rule.classes, "%s", torture_given("names.txt"));
	open_twice(torture_given("t-*.tar"), &rule, false);
}

/* One class, several, numbers. */
static void make_manifests(void)
{
	static const char *const classes[] = {"ant", "bee", "cow"};
	char one[2048] = "path,label\n", many[2048] = "path,labels\n", numbers[2048] = "path,x,y\n";
	data_folder(torture_shared, "set");
	for (unsigned n = 0; n < DATA_IMAGES; n++) {
		const char *class = classes[n % 3];
		(void)sprintf(one + strlen(one), "%s/%02u.jpg,%s\n", class, n, class);
		(void)sprintf(many + strlen(many), "%s/%02u.jpg,all;%s\n", class, n, class);
		(void)sprintf(numbers + strlen(numbers), "%s/%02u.jpg,%u,0.5\n", class, n, n);
	}
	fixture_file(torture_shared, "one.csv", one);
	fixture_file(torture_shared, "many.csv", many);
	fixture_file(torture_shared, "numbers.csv", numbers);
}

static void run_manifest(const char *name, enum label_type type)
{
	struct label_rule rule = rule_of(DATASET_LABELS_MANIFEST, type);
	(void)snprintf(rule.manifest, sizeof rule.manifest, "%s", torture_given(name));
	open_twice(torture_given("set"), &rule, false);
}

static void run_one(void)
{
	run_manifest("one.csv", LABEL_TYPE_CLASS);
}

static void run_many(void)
{
	run_manifest("many.csv", LABEL_TYPE_MULTI_HOT);
}

static void run_numbers(void)
{
	run_manifest("numbers.csv", LABEL_TYPE_FLOAT);
}

/* ---- fetch ---- */

struct load {
	struct fetch_item item; /* first */
	struct fault fault;
	sem_t *done;
};

static void load_done(struct fetch_item *item)
{
	(void)sem_post(((struct load *)item)->done);
}

static struct dataset *open_safely(const char *name)
{
	struct dataset_options options = {
		.cache_dir = torture_own("cache"), .index_in_cache = true};
	struct fault fault = {""};
	struct dataset *dataset = NULL;
	if (dataset_open(name, &options, &dataset, &fault) < 0)
		torture_wrong("open: %s", fault.text);
	return dataset;
}

static void check_load(const struct dataset *dataset, const struct load *load)
{
	if (load->item.result == FETCH_OK)
		TORTURE_WANT(is_image(
			image_of(dataset, load->item.number), load->item.data, load->item.size));
	else if (load->item.result > 0)
		torture_refused(load->item.result,
			fetch_outcome_name((enum fetch_outcome)load->item.result));
	else
		torture_refused(load->item.result, load->fault.text);
}

/* Every sample twice, all at once: each completes, whatever fails. */
static void load_all(struct fetch *fetch, const struct dataset *dataset)
{
	static struct load load[2 * DATA_IMAGES];
	struct fetch_reader reader;
	sem_t done;
	(void)sem_init(&done, 0, 0);
	fetch_reader_init(&reader);
	for (unsigned i = 0; i < UTIL_COUNT(load); i++)
		load[i] = (struct load){
			.item = {.reader = &reader,
				.dataset = dataset,
				.number = i * 7 % DATA_IMAGES,
				.done = load_done,
				.fault = &load[i].fault,
				.next = i + 1 < UTIL_COUNT(load) ? &load[i + 1].item : NULL},
			.done = &done};
	fetch_submit(fetch, &load[0].item);
	for (unsigned i = 0; i < UTIL_COUNT(load); i++)
		while (sem_wait(&done) < 0)
			;
	torture_off();
	for (unsigned i = 0; i < UTIL_COUNT(load); i++) {
		check_load(dataset, &load[i]);
		fetch_release(fetch, &load[i].item);
	}
	fetch_forget(fetch, dataset);
	fetch_reader_deinit(&reader);
	(void)sem_destroy(&done);
}

static void run_fetch(const char *name, enum fetch_engine engine, enum fetch_io io)
{
	struct fetch *fetch = NULL;
	struct fault fault = {""};
	struct permit large;
	struct ledger ledger;
	struct dataset *dataset = open_safely(name);
	permit_init(&large, 2 << 20);
	ledger_init(&ledger, 64 << 20);
	struct fetch_options options = {.engine = engine,
		.io = io,
		.arena_bytes = 1 << 20,
		.index_bytes = 1 << 18,
		.pread_threads = 4,
		.cache = io == FETCH_IO_DIRECT ? FETCH_CACHE_ON : FETCH_CACHE_OFF,
		.ledger = &ledger,
		.large = &large};
	torture_on();
	int code = fetch_new(&options, &fetch, &fault);
	if (code < 0)
		refuse(code, &fault);
	if (code == 0) {
		fetch_expect(fetch, dataset);
		load_all(fetch, dataset);
		fetch_free(fetch);
	}
	torture_off();
	dataset_free(dataset);
	TORTURE_WANT(ledger_free(&ledger) == 64 << 20);
	ledger_deinit(&ledger);
	permit_deinit(&large);
}

static void run_uring_tars(void)
{
	run_fetch(torture_given("t-*.tar"), FETCH_AUTO, FETCH_IO_BUFFERED);
}

static void run_uring_folder(void)
{
	run_fetch(torture_given("set"), FETCH_AUTO, FETCH_IO_DIRECT);
}

static void run_pread_tars(void)
{
	run_fetch(torture_given("t-*.tar"), FETCH_PREAD, FETCH_IO_DIRECT);
}

static void run_pread_folder(void)
{
	run_fetch(torture_given("set"), FETCH_PREAD, FETCH_IO_AUTO);
}

/* ---- files beside the dataset ---- */

static void keep(struct sidecar *sidecar, const struct dataset *dataset, uint64_t number)
{
	struct sidecar_place place;
	struct sample sample;
	uint8_t bytes[100], back[SIDECAR_LEAST];
	torture_off();
	TORTURE_WANT(dataset_sample(dataset, number, &sample, NULL) == 0);
	torture_on();
	memset(bytes, (int)number + 1, sizeof bytes);
	sidecar_place(sidecar, number, sample.shard, sample.position, sample.size, &place);
	sidecar_ahead(sidecar, &place);
	bool kept = sidecar_write(sidecar, &place, bytes, sizeof bytes);
	size_t size = sidecar_read(sidecar, &place, back, sizeof back);
	if (kept && !torture_struck())
		TORTURE_WANT(size >= sizeof bytes);
	if (kept && size >= sizeof bytes)
		TORTURE_WANT(memcmp(bytes, back, sizeof bytes) == 0);
	(void)sidecar_keeps(sidecar, &place);
}

static void run_sidecar(void)
{
	struct dataset *dataset = open_safely(torture_given("t-*.tar"));
	struct sidecar *sidecar = NULL;
	char notice[512] = "";
	torture_on();
	int code = sidecar_new(dataset, &sidecar);
	if (code < 0)
		torture_mute(code);
	for (uint64_t n = 0; code == 0 && n < DATA_IMAGES; n++)
		keep(sidecar, dataset, n);
	if (code == 0 && sidecar_notice(sidecar, notice, sizeof notice))
		TORTURE_WANT(notice[0]);
	sidecar_free(sidecar);
	torture_off();
	dataset_free(dataset);
}

static void run_shelf(void)
{
	struct fetch *fetch = NULL;
	struct shelf shelf;
	struct shelf_entry *entry[3] = {NULL};
	struct fault fault = {""};
	struct fetch_options engine = {.engine = FETCH_PREAD,
		.arena_bytes = 1 << 20,
		.index_bytes = 1 << 18,
		.pread_threads = 2};
	struct dataset_options options = {.cache_dir = torture_own("cache")};
	TORTURE_WANT(fetch_new(&engine, &fetch, &fault) == 0);
	torture_on();
	shelf_init(&shelf, fetch);
	for (int i = 0; i < 3; i++) {
		int code = shelf_open(
			&shelf, torture_given("set"), &options, i > 0, &entry[i], &fault);
		if (code < 0) {
			refuse(code, &fault);
			torture_on();
		}
	}
	for (int i = 0; i < 3; i++)
		shelf_close(&shelf, entry[i]);
	shelf_deinit(&shelf);
	torture_off();
	fetch_free(fetch);
}

const struct torture_scenario torture_source[] = {
	{"source.folder", make_folder, run_folder},
	{"source.tars", make_cls, run_tars},
	{"source.json", make_json, run_json},
	{"source.beside", NULL, run_beside},
	{"source.path", make_path, run_path},
	{"source.one", make_manifests, run_one},
	{"source.many", make_manifests, run_many},
	{"source.numbers", make_manifests, run_numbers},
	{"source.uring_tars", make_cls, run_uring_tars},
	{"source.uring_folder", make_folder, run_uring_folder},
	{"source.pread_tars", make_cls, run_pread_tars},
	{"source.pread_folder", make_folder, run_pread_folder},
	{"source.sidecar", make_cls, run_sidecar},
	{"source.shelf", make_folder, run_shelf},
	{0},
};
