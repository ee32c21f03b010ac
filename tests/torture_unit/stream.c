/* Scenarios of the settings and of the parts of streams. */
#include "torture_unit/data.h"
#include "torture_unit/torture.h"

#include "base/host/ledger.h"
#include "batch/extent.h"
#include "batch/handout.h"
#include "config.h"
#include "dataset/dataset.h"
#include "definition/sampling.h"
#include "definition/spec.h"
#include "definition/subset.h"
#include "definition/weigh.h"
#include "order/alias.h"
#include "order/sampler.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- definitions ---- */

static const char definition[] =
	"{\"source\": \"/data/t-*.tar\", \"batch_size\": 32, \"seed\": 7, \"transforms\": ["
	"{\"RandomResizedCrop\": {\"size\": 96, \"scale\": [0.2, 1]}}, {\"RandomApply\": {\"p\": "
	"0.5, \"transforms\": "
	"[{\"ColorJitter\": {\"brightness\": 0.4}}]}}, {\"RandAugment\": {}}, "
	"{\"RandomHorizontalFlip\": {}}], "
	"\"labels\": {\"manifest\": \"/data/m.csv\", \"type\": \"multi_hot\"}, \"group\": \"g\", "
	"\"share\": \"split\", "
	"\"rank\": 1, \"world_size\": 4, \"dtype\": \"float16\", \"mean\": [0.5, 0.5, 0.5], "
	"\"std\": [1, 1, 1]}";

static void run_spec(void)
{
	static struct stream_spec spec, again;
	struct fault fault = {""};
	const char *what = "";
	torture_on();
	int code = spec_parse(definition, sizeof definition - 1, "open request", &spec, &fault);
	char *json = code == 0 ? spec_json(&spec) : NULL;
	if (json)
		code = spec_parse(json, strlen(json), "open request", &again, &fault);
	else if (code == 0)
		torture_mute(-ENOMEM);
	if (code < 0)
		torture_refused(code, fault.text);
	torture_off();
	if (code == 0 && json)
		TORTURE_WANT(
			spec_same(&spec, &again, &what) && spec.rank == 1 && spec.batch_size == 32);
	free(json);
}

static const char state_text[] =
	"{\"version\": 1, \"fingerprint\": \"00000000000000aa\", \"order\": \"00000000000000bb\", "
	"\"transform\": "
	"\"00000000000000cc\", \"seed\": 7, \"epoch\": 3, \"position\": 640}";

static void run_state(void)
{
	struct spec_state state;
	struct fault fault = {""};
	torture_on();
	int code = spec_state_parse(state_text, sizeof state_text - 1, "the state", &state, &fault);
	torture_off();
	if (code < 0)
		torture_refused(code, fault.text);
	else
		TORTURE_WANT(state.epoch == 3 && state.position == 640 && state.order == 0xbb);
}

static void make_config(void)
{
	fixture_file(torture_shared, "penstock.yaml",
		"memory: 1G\nthreads: 3\nlog_level: warning, trainer=debug\nhttp: "
		"'off'\nrecorder: /var/tmp/r\n"
		"streams:\n  train:\n    source: /data/a.tar\n    batch_size: 8\n  mixed:\n    "
		"sources:\n"
		"    - {source: /a, weight: 3}\n    - {source: /b}\n    transforms:\n    - "
		"RandomResizedCrop: {size: 64}\n");
}

static void run_config(void)
{
	static struct config config;
	struct fault fault = {""};
	config_init(&config);
	torture_on();
	int code = config_load(torture_given("penstock.yaml"), &config, &fault);
	torture_off();
	if (code < 0)
		torture_refused(code, fault.text);
	else
		TORTURE_WANT(config.memory == UINT64_C(1) << 30 && config.threads == 3 &&
			     config.stream_count == 2);
}

/* ---- orders ---- */

static void make_lists(void)
{
	int64_t numbers[9];
	float weights[DATA_IMAGES];
	for (int i = 0; i < 9; i++)
		numbers[i] = 8 - i;
	for (int i = 0; i < DATA_IMAGES; i++)
		weights[i] = (float)(i + 1);
	data_npy(torture_shared, "few.npy", "<i8", 9, 0, numbers, sizeof numbers);
	data_npy(torture_shared, "weights.npy", "<f4", DATA_IMAGES, 0, weights, sizeof weights);
	data_folder(torture_shared, "set");
}

static uint64_t budget_for(void *context, uint64_t bytes_more)
{
	(void)context;
	return ((uint64_t)1 << 20) + bytes_more;
}

struct sampled {
	struct dataset *dataset;
	struct ledger ledger;
	struct list_shelf shelf;
};

static void sample_with(struct sampled *with, const char *indices, const char *weights)
{
	struct sampling sampling = {.repeats = 1};
	struct sampling_order order = {.seed = 5, .shuffle = true, .indices = indices};
	struct sampling_lists lists = {0};
	struct concat parts = {0};
	struct sampler sampler;
	struct fault fault = {""};
	(void)snprintf(sampling.weights, sizeof sampling.weights, "%s", weights);
	concat_add(&parts, with->dataset);
	int code = sampling_lists_open(&with->shelf, indices,
		weigh_is_balanced(weights) ? "" : weights, NULL, &lists, &fault);
	if (code == 0)
		code = sampling_make(&sampling, &order, &parts, &with->shelf, &lists, NULL, NULL,
			&sampler, &fault);
	if (code == 0) {
		TORTURE_WANT(sampler.length == (*indices ? 9 : DATA_IMAGES));
		for (uint64_t p = 0; p < sampler.length; p++)
			TORTURE_WANT(sampler_pick(&sampler, 1, p).number < DATA_IMAGES);
	}
	sampling_lists_close(&with->shelf, &lists);
	if (code < 0) {
		torture_refused(code, fault.text);
		torture_on();
	}
}

static void run_sampling(void)
{
	struct sampled with;
	struct dataset_options options = {.cache_dir = torture_own("cache")};
	TORTURE_WANT(dataset_open(torture_given("set"), &options, &with.dataset, NULL) == 0);
	ledger_init(&with.ledger, 1 << 20);
	list_shelf_init(&with.shelf, &with.ledger, budget_for, NULL);
	torture_on();
	sample_with(&with, torture_given("few.npy"), "");
	sample_with(&with, "", torture_given("weights.npy"));
	sample_with(&with, "", "balanced");
	torture_off();
	TORTURE_WANT(ledger_free(&with.ledger) == 1 << 20);
	list_shelf_deinit(&with.shelf);
	ledger_deinit(&with.ledger);
	dataset_free(with.dataset);
}

/* ---- shared memory ---- */

/* Its descriptor stays open: it is opened before any are counted. */
static void __attribute__((constructor)) begin_loans(void)
{
	handout_begin();
}

static void run_extent(void)
{
	struct extent_geometry geometry = extent_plain(8, 64);
	for (int writable = 0; writable < 2; writable++) {
		struct extent extent = {0};
		struct fault fault = {""};
		torture_on();
		int code = extent_init(&extent, &geometry, 4, writable, &fault);
		torture_off();
		if (code < 0) {
			torture_refused(code, fault.text);
			continue;
		}
		for (uint32_t slot = 0; slot < 4; slot++)
			memset(extent_image(&extent, slot, 7), 1, 64 * 64 * 3);
		torture_on();
		extent_deinit(&extent);
		torture_off();
	}
}

const struct torture_scenario torture_stream[] = {
	{"stream.spec", NULL, run_spec},
	{"stream.state", NULL, run_state},
	{"stream.config", make_config, run_config},
	{"stream.sampling", make_lists, run_sampling},
	{"stream.extent", NULL, run_extent},
	{0},
};
