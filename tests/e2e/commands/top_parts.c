/* top_parts: what `penstock top` draws, without a terminal and without a daemon: every size,
 * answers that lack anything, answers that lie. */
#include "client/cli/answer.h"
#include "client/cli/bar.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "client/cli/watch/columns.h"
#include "client/cli/watch/paper.h"
#include "client/cli/watch/top_view.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the linked parts of the command would say or need of main.c. */
void cli_note(const char *format, ...)
{
	(void)format;
	fail_msg("%s", "nothing here has anything to say");
}

int cli_fail(enum cli_exit code, const char *format, ...)
{
	(void)format;
	return (int)code;
}

enum cli_exit cli_exit_code(int error)
{
	(void)error;
	return CLI_FAILED;
}

char *cli_tame(char *text)
{
	return text;
}

int catalog_open_spec(
	const char *source, const struct stream_spec *spec, struct dataset **ret_dataset)
{
	(void)source;
	(void)spec;
	(void)ret_dataset;
	fail_msg("%s", "nothing here opens a dataset");
	return CLI_FAILED;
}

int catalog_divide(struct list_shelf *shelf, const struct dataset *dataset,
	const struct bucket_keys *buckets, struct sampler *sampler, struct list **ret,
	struct fault *fault)
{
	(void)shelf;
	(void)dataset;
	(void)buckets;
	(void)sampler;
	(void)ret;
	(void)fault;
	fail_msg("%s", "nothing here divides samples");
	return CLI_FAILED;
}

static const char full[] =
	"{'version':'0.1.0','pid':4121,'uptime_s':100.0,'socket':'/run/s.sock','draining':false,"
	"'threads':2,'cpus':2,'reader':'io_uring (kernel 6.1, registered)','io':'buffered',"
	"'cache':{'mode':'on','hits':930,'misses':70,'samples':10,'bytes':1048576},"
	"'stages':{'read':2.0,'decode':100.0,'pixel':20.0,'serve':1.0},'read_bytes':1000000,"
	"'http':'unix:/run/http.sock','recorder':{'path':'/state/"
	"4121.ring','pid':4122,'dropped':0},"
	"'machine':{'available':4294967296,'total':8589934592,'swap_free':0,'oom_kills':0,"
	"'disk_free':1073741824,'cgroup':{'path':'/docker/x','used':3221225472,"
	"'limit':8589934592,'oom_kills':1},'pressure':{'cpu_some':12.1,'memory_some':0.5,"
	"'memory_full':0.1,'io_some':3,'io_full':1}},'resident_bytes':64172851,"
	"'gpus':[{'device':0,'name':'H100','used':13207024435,'total':85899345920,'busy':0.93}],"
	"'verdict':'train: decode-bound, 97 %: 2 of 2 cores busy; 3 more would feed this trainer',"
	"'memory':{'budget':268435456,'reserved':102026444,'lines':[{'name':'small','bytes':1000},"
	"{'name':'batches of train','bytes':50000000},{'name':'process','bytes':9000000}]},"
	"'streams':[{'name':'train','source':'/data/train-{0..9}.tar','group':'','batch_size':256,"
	"'image_size':224,'decode':'exact','interpolation':'bilinear','train':true,'shuffle':true,"
	"'seed':7,'share':'all','rank':0,'world_size':1,'wait_for':2,'laggard':'block',"
	"'state':'serving','samples':1281167,'epoch':3,'batch':1234,'batches':5004,'slots':16,"
	"'slots_free':10,'slots_filling':1,'ready':2,'leased':3,'slot_bytes':38535168,"
	"'locked':true,'huge_pages':false,'images':12345678,'rate':3512.4,"
	"'fallbacks':{'progressive':12},'checkpoints':{'used':5,'made':3,'dropped':0},"
	"'broken':{'truncated':2,'empty':1},'notice':'lies on a network','verdict':'decode-bound, "
	"97 %: 2 of 2 cores busy','bottleneck':{'kind':'decode','share':0.97,'trainer_wait':0.62,"
	"'slots_full':0.03,'workers_idle':0.01,'cpu_busy':0.99,'cpu_stolen':0.02,'read_busy':0.1,"
	"'buffers_full':0,'read_bytes_per_s':210000000,'read_bytes_per_s_best':220000000,"
	"'more_cpus':3,'pid':4130},'waits_ms':{'p50':1.25,'p99':30.5},'trainers':["
	"{'pid':4130,'held':2,'given':1236,'epoch':3,'batch':1234,'blocks':true,'held_s':3.2,"
	"'waits':0.62,'resident_bytes':3221225472,'gpu_bytes':10737418240,'cpu':1.07,"
	"'command':'/usr/bin/python /a/train.py --lr "
	"0.1'},{'pid':4131,'held':0,'given':0,'epoch':0,'batch':0,"
	"'blocks':false,'held_s':0,'waits':0.01,'resident_bytes':null,'gpu_bytes':null,"
	"'cpu':null,'command':'python eval.py'}]},"
	"{'name':'','group':'job','share':'split','rank':1,'world_size':4,'state':'indexing',"
	"'source':'/data/b','indexed_samples':1000,'indexed_bytes':5,'total_bytes':10,"
	"'trainers':[]}],'notices':['io_uring is not to be had here: pread instead']}";

/* JSON with ' for ". */
static struct node *parse(const char *text)
{
	char *copy = strdup(text);
	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	struct node *root = document_parse(copy);
	free(copy);
	assert_non_null(root);
	return root;
}

static struct top_view view_of(const struct node *root)
{
	struct top_view view = {.utf8 = true, .interval_s = 1};
	top_view_take(&view, root, NULL, 0);
	return view;
}

static char *text_of(const struct paper *paper)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);
	paper_print(paper, file);
	(void)fclose(file);
	return text;
}

static char *draw(struct top_view *view, int width, int height)
{
	struct paper paper;
	paper_init(&paper, width, view->utf8);
	top_view_draw(view, height, &paper);
	assert_int_equal(paper.rows, height);
	assert_false(paper.failed);
	char *text = text_of(&paper);
	paper_free(&paper);
	return text;
}

static void assert_shows(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in:\n%s", words, text);
}

static void assert_hides(const char *text, const char *words)
{
	if (strstr(text, words))
		fail_msg("\"%s\" is in:\n%s", words, text);
}

/* The line that holds these words, to be freed. */
static char *line_with(const char *text, const char *words)
{
	const char *at = strstr(text, words), *begin = at;
	assert_shows(text, words);
	while (begin > text && begin[-1] != '\n')
		begin--;
	return strndup(begin, strcspn(begin, "\n"));
}

static void test_first_page(void **state)
{
	(void)state;
	struct node *root = parse(full);
	struct top_view view = view_of(root);
	char *text = draw(&view, 80, 24);
	static const char *const words[] = {"penstockd 0.1.0", "pid 4121", "up 1:40",
		"3 more would feed this trainer", "62 % waiting", "3 % all full", "1 % idle",
		"99 % busy", "1.23 of 2 CPUs", "97.3 of 256.0 MiB", "61.2 MiB", "93 % hits",
		"3.0 of 8.0 GiB", "12.3 of 80.0 GiB 93 %", "cpu 12, mem 0/0, io 3/1 %",
		"1,234/5,004", "3,512", "decode 97 %", "q quit", "? help"};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		assert_shows(text, words[i]);
	free(text);
	text = draw(&view, 200, 50);
	assert_shows(text, "/data/train-{0..9}.tar");
	assert_shows(text, "python /a/train.py --lr 0.1");
	assert_shows(text, "job rank 1");
	free(text);
	document_free(root);
}

static const char three[] =
	"{'version':'0.1.0','pid':4121,'uptime_s':100.0,'threads':2,'cpus':2,'verdict':'d (eval, "
	"48 "
	"px, seed 0): decode-bound','remedy':'try --threads 4','bottleneck':{},'streams':["
	"{'name':'','source':'/data/d','differs':'train, 32 px, seed "
	"0','state':'serving','epoch':1,"
	"'batch':2,'batches':30,'rate':1234,'slots':4,'leased':2,'ready':2,'slots_filling':0,"
	"'slots_free':0,'batch_size':16,'image_size':32,'bottleneck':{'kind':'decode','share':0.5,"
	"'trainer_wait':0.5,'slots_full':0.25},'trainers':[{'pid':1,'waits':0.5,'given':3,'held':1}"
	"]},"
	"{'name':'','source':'/data/d','differs':'eval, 48 px, seed 0','state':'serving','epoch':1,"
	"'batch':2,'batches':30,'rate':1234,'slots':4,'leased':1,'ready':1,'slots_filling':1,"
	"'slots_free':1,'batch_size':16,'image_size':48,'bottleneck':{'kind':'decode','share':0.5,"
	"'trainer_wait':0.5},'verdict':'decode-bound','remedy':'try --threads 4',"
	"'trainers':[{'pid':2,'waits':0.5,'given':3,'held':1}]}]}";

/* Streams of one dataset are told apart at any usual width, and the remedy follows the verdict. */
static void test_told_apart(void **state)
{
	(void)state;
	struct node *root = parse(three);
	struct top_view view = view_of(root);
	static const int widths[] = {80, 120, 200};
	for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
		char *text = draw(&view, widths[i], 30);
		assert_shows(
			text, "d (eval, 48 px, seed 0): decode-bound\nremedy: try --threads 4\n");
		assert_shows(text, "(private) d  train, 32 px, seed 0 ");
		assert_shows(text, "(private) d  eval, 48 px, seed 0 ");
		assert_shows(text, " d, eval, 48 px, seed 0 ");
		free(text);
	}
	assert_int_equal(top_view_key(&view, TOP_KEY_DOWN), TOP_REDRAW);
	assert_int_equal(top_view_key(&view, TOP_KEY_ENTER), TOP_REDRAW);
	char *text = draw(&view, 80, 30);
	assert_shows(text, "differs      eval, 48 px, seed 0\n");
	assert_shows(text, "remedy       try --threads 4\n");
	free(text);
	document_free(root);
}

/* How many cells of a bar of slots the line has. */
static int slots_in(const char *line)
{
	int cells = 0;
	for (; *line; line++)
		cells += strncmp(line, "█", 3) == 0 || strncmp(line, "▓", 3) == 0 ||
			 strncmp(line, "▒", 3) == 0 || strncmp(line, "░", 3) == 0;
	return cells;
}

/* What a terminal is wider than needed becomes longer bars. */
static void test_width_is_used(void **state)
{
	(void)state;
	struct node *root = parse(three);
	struct top_view view = view_of(root);
	int before = 0;
	for (int width = 120; width <= 200; width += 20) {
		char *text = draw(&view, width, 30), *line = line_with(text, "(private) d  eval");
		int cells = slots_in(line);
		assert_true(cells >= before && cells >= 8);
		/* All columns are there and the bar may grow: no part of the width is left. */
		if (cells > 8 && cells < 32)
			assert_int_equal(paper_columns(line, true), width);
		before = cells;
		free(line);
		free(text);
	}
	assert_int_equal(before, 32);
	/* Facts share a line in as many columns as fit; their bars take the rest of each. */
	static const struct {
		int width, cells;
	} bars[] = {
		{60, 26}, {79, 32}, {80, 6}, {100, 16}, {119, 25}, {120, 6}, {150, 16}, {200, 6}};
	for (size_t i = 0; i < sizeof bars / sizeof bars[0]; i++) {
		char *text = draw(&view, bars[i].width, 30), *line = line_with(text, "trainers ");
		char *fact = strndup(line, strcspn(line, "%"));
		assert_int_equal(
			slots_in(fact) + (strstr(fact, "▌") || strstr(fact, "▍")), bars[i].cells);
		free(fact);
		free(line);
		free(text);
	}
	document_free(root);
}

/* Each size has as many lines as were asked for, none wider, and what matters most. */
static void test_sizes(void **state)
{
	(void)state;
	struct node *root = parse(full);
	struct top_view view = view_of(root);
	for (int page = 0; page < TOP_PAGES; page++)
		for (int width = 1; width <= 260; width += width < 90 ? 1 : 17)
			for (int height = 1; height <= 60; height += height < 26 ? 1 : 9) {
				view.page = (enum top_page)page;
				char *text = draw(&view, width, height);
				for (const char *line = text; *line;
					line = strchr(line, '\n') + 1) {
					char one[2048];
					(void)snprintf(one, sizeof one, "%.*s",
						(int)strcspn(line, "\n"), line);
					assert_true(paper_columns(one, true) <= width);
				}
				free(text);
			}
	view.page = TOP_STREAMS;
	char *text = draw(&view, 80, 10);
	static const char *const low[] = {"penstockd", "decode-bound", "1,234/5,004", "quit"};
	for (size_t i = 0; i < sizeof low / sizeof low[0]; i++)
		assert_shows(text, low[i]);
	free(text);
	text = draw(&view, 40, 24);
	static const char *const narrow[] = {
		"penstockd", "decode-bound", "1,234/5,004", "3,512", "62 %"};
	for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
		assert_shows(text, narrow[i]);
	free(text);
	document_free(root);
}

static void test_closer(void **state)
{
	(void)state;
	struct node *root = parse(full);
	struct top_view view = view_of(root);
	assert_int_equal(top_view_key(&view, TOP_KEY_ENTER), TOP_REDRAW);
	assert_int_equal(view.page, TOP_STREAM);
	char *text = draw(&view, 100, 60);
	static const char *const words[] = {"/data/train-{0..9}.tar", "training, 224 px, batch 256",
		"every batch to every trainer, once 2 have joined", "epoch 3, batch 1,234 of 5,004",
		"12,345,678 images since",
		"3 held, 2 ready, 1 being filled, 10 free; 36.8 MiB each, locked",
		"p50 1.25 ms, p99 30.5 ms", "progressive 12", "used 5, made 3, dropped 0",
		"truncated 2, empty 1", "lies on a network", "4130", "3.2 s", "10.0 GiB"};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		assert_shows(text, words[i]);
	assert_hides(text, "indexing");
	free(text);
	assert_int_equal(top_view_key(&view, TOP_KEY_BACK), TOP_REDRAW);
	assert_int_equal(view.page, TOP_STREAMS);
	(void)top_view_key(&view, 'j');
	(void)top_view_key(&view, TOP_KEY_ENTER);
	text = draw(&view, 100, 40);
	assert_shows(text, "1,000 samples so far");
	assert_shows(text, "split among 4 ranks, this is rank 1");
	free(text);
	/* Looked at and gone: it says so, and shows no other in its place. */
	struct node *without = parse("{'streams':[{'name':'other','trainers':[]}]}");
	top_view_take(&view, without, root, 1);
	text = draw(&view, 100, 40);
	assert_shows(text, "this stream has ended");
	free(text);
	document_free(without);
	document_free(root);
}

static void test_pages(void **state)
{
	(void)state;
	struct node *root = parse(full);
	struct top_view view = view_of(root);
	(void)top_view_key(&view, 'm');
	char *text = draw(&view, 100, 40);
	const char *batches = strstr(text, "batches of train"), *process = strstr(text, " process");
	assert_true(batches && process && batches < process && process < strstr(text, " small"));
	assert_shows(text, "/docker/x");
	assert_shows(text, "unix:/run/http.sock");
	assert_shows(text, "/state/4121.ring");
	char *kills = line_with(text, "OOM kills");
	assert_shows(kills, " 1");
	free(kills);
	free(text);
	(void)top_view_key(&view, 't');
	text = draw(&view, 130, 20);
	char *line = line_with(text, "4130");
	static const char *const words[] = {"train", "1,236", "3:1,234", "2", "62 %", "1.07",
		"3.0 GiB", "10.0 GiB", "3.2 s", "python /a/train.py --lr 0.1"};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		assert_shows(line, words[i]);
	free(line);
	free(text);
	(void)top_view_key(&view, 'n');
	text = draw(&view, 100, 20);
	assert_shows(text, "pread instead");
	assert_shows(text, "lies on a network");
	free(text);
	(void)top_view_key(&view, '?');
	text = draw(&view, 100, 40);
	assert_shows(text, "Enter");
	assert_shows(text, "held up by");
	free(text);
	(void)top_view_key(&view, TOP_KEY_BACK);
	assert_int_equal(view.page, TOP_NOTICES);
	assert_int_equal(top_view_key(&view, 'q'), TOP_QUIT);
	assert_int_equal(top_view_key(&view, '#'), TOP_NOTHING);
	document_free(root);
}

static void draw_pages(const struct node *root)
{
	for (int page = 0; page < TOP_PAGES; page++) {
		struct top_view view = view_of(root);
		view.page = (enum top_page)page;
		free(draw(&view, 120, 40));
	}
}

/* Leaves out every key of every object, one at a time. */
static void without(json_t *node, const struct node *root)
{
	json_t *keys = json_array(), *name, *value;
	const char *key;
	size_t i;
	json_object_foreach(node, key, value)
	{
		(void)json_array_append_new(keys, json_string(key));
	}
	json_array_foreach(keys, i, name)
	{
		value = json_incref(json_object_get(node, json_string_value(name)));
		(void)json_object_del(node, json_string_value(name));
		draw_pages(root);
		(void)json_object_set(node, json_string_value(name), value);
		without(value, root);
		json_decref(value);
	}
	json_array_foreach(node, i, value)
	{
		without(value, root);
	}
	json_decref(keys);
}

static void test_anything_may_be_missing(void **state)
{
	(void)state;
	struct node *root = parse(full);
	without((json_t *)root, root);
	document_free(root);
	static const char *const odd[] = {"{}", "[]", "{'streams':[{}]}", "{'streams':{'a':{}}}",
		"{'streams':[1,'x',null,{'trainers':[null,{},3]}],'memory':[],'gpus':{'a':1}}",
		"{'machine':null,'recorder':null,'gpus':null,'verdict':null,'streams':null}"};
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		root = parse(odd[i]);
		for (int page = 0; page < TOP_PAGES; page++) {
			struct top_view view = view_of(root);
			view.page = (enum top_page)page;
			(void)top_view_key(&view, TOP_KEY_DOWN);
			free(draw(&view, 80, 24));
			free(draw(&view, 40, 10));
		}
		document_free(root);
	}
	/* What a newer daemon reports is named, not left out in silence. */
	root = parse("{'streams':[{'name':'a','seed':7,'batch_size':8,'image_size':64,'train':true,"
		     "'shuffle':true,'transforms':[{'Operation2030':{'p':1}}]}]}");
	struct top_view newer = view_of(root);
	newer.page = TOP_STREAM;
	char *said = draw(&newer, 200, 60);
	assert_shows(said, "transforms of another release, not shown");
	free(said);
	document_free(root);
	/* A status has the names of fields with what was delivered. */
	root = parse("{'streams':[{'name':'a','seed':7,'batch_size':8,'image_size':64,'train':true,"
		     "'shuffle':true,'fields':{'names':['txt'],'bytes':9}}]}");
	struct top_view fielded = view_of(root);
	fielded.page = TOP_STREAM;
	said = draw(&fielded, 200, 60);
	assert_null(strstr(said, "another release"));
	free(said);
	document_free(root);
	root = parse("{}");
	struct top_view view = view_of(root);
	char *text = draw(&view, 80, 24);
	assert_shows(text, "no stream is open");
	assert_hides(text, "nan");
	assert_hides(text, "%");
	free(text);
	document_free(root);
}

/* Numbers that no daemon would send, names that want to steer the terminal. */
static void test_lies(void **state)
{
	(void)state;
	static const char *const lies[] = {"1e308", "-1e308", "-1", "18446744073709551615",
		"9223372036854775807", "0", "'\\u001b[31mx\\n\\u0085\\u202ey'", "[]", "true"};
	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		size_t room = sizeof full * 12, n = 0;
		char *text = malloc(room);
		/* Every number becomes the lie. */
		for (const char *c = full; *c; c++) {
			bool number = c > full && c[-1] == ':' && *c >= '0' && *c <= '9';
			if (number) {
				n += (size_t)snprintf(text + n, room - n, "%s", lies[i]);
				c += strspn(c, "0123456789.") - 1;
			} else {
				text[n++] = *c;
			}
		}
		text[n] = 0;
		struct node *root = parse(text);
		for (int page = 0; page < TOP_PAGES; page++) {
			struct top_view view = view_of(root);
			view.page = (enum top_page)page;
			char *drawn = draw(&view, 120, 40);
			assert_null(strchr(drawn, 27));
			free(drawn);
		}
		document_free(root);
		free(text);
	}
}

/* A double that is no count becomes none, not what a processor makes of it. */
static void test_wholes(void **state)
{
	(void)state;
	assert_int_equal(document_whole(-5), 0);
	assert_int_equal(document_whole(-1e308), 0);
	assert_int_equal(document_whole((double)NAN), 0);
	assert_int_equal(document_whole(7.9), 7);
	assert_true(document_whole(0x1p64) == UINT64_MAX);
	assert_true(document_whole((double)INFINITY) == UINT64_MAX);
	struct node *root = parse("{'a':-5,'b':-5.5,'c':1e308,'d':7.9,'e':'7'}");
	assert_int_equal(document_u64(root, "a", 3), 3);
	assert_int_equal(document_u64(root, "b", 3), 3);
	assert_true(document_u64(root, "c", 3) == UINT64_MAX);
	assert_int_equal(document_u64(root, "d", 3), 7);
	assert_int_equal(document_u64(root, "e", 3), 3);
	document_free(root);
}

static void test_rates(void **state)
{
	(void)state;
	struct node *before = parse("{'pid':1,'uptime_s':10,'cpus':4,'stages':{'decode':8}}"),
		    *now = parse("{'pid':1,'uptime_s':12,'cpus':4,'stages':{'decode':11}}"),
		    *other = parse("{'pid':2,'uptime_s':2,'cpus':4,'stages':{'decode':1}}");
	struct top_view view = view_of(before);
	/* One answer: the average since the start. */
	char *text = draw(&view, 80, 24);
	assert_shows(text, "0.80 of 4 CPUs");
	free(text);
	top_view_take(&view, now, before, 2);
	text = draw(&view, 80, 24);
	assert_shows(text, "1.50 of 4 CPUs");
	free(text);
	/* Another daemon: nothing of the one before counts. */
	top_view_take(&view, other, now, 2);
	text = draw(&view, 80, 24);
	assert_shows(text, "0.50 of 4 CPUs");
	free(text);
	document_free(before);
	document_free(now);
	document_free(other);
}

/* 64 streams with 4 trainers each. */
static struct node *many(void)
{
	size_t room = 1 << 20, n = 0;
	char *text = malloc(room);
	n += (size_t)snprintf(text, room, "{'streams':[");
	for (int s = 0; s < 64; s++) {
		n += (size_t)snprintf(text + n, room - n,
			"%s{'name':'stream%02d','state':'serving','rate':%d,'trainers':[",
			s ? "," : "", s, s);
		for (int t = 0; t < 4; t++)
			n += (size_t)snprintf(text + n, room - n,
				"%s{'pid':%d,'held':%d,'waits':%g}", t ? "," : "", 1000 + s * 4 + t,
				t, (double)(s * 4 + t) / 256);
		n += (size_t)snprintf(text + n, room - n, "]}");
	}
	(void)snprintf(text + n, room - n, "]}");
	struct node *root = parse(text);
	free(text);
	return root;
}

static void test_many_are_scrolled(void **state)
{
	(void)state;
	struct node *root = many();
	struct top_view view = view_of(root);
	char *text = draw(&view, 80, 12);
	assert_shows(text, "stream00");
	assert_hides(text, "stream40");
	free(text);
	for (int i = 0; i < 40; i++)
		(void)top_view_key(&view, 'j');
	text = draw(&view, 80, 12);
	assert_shows(text, "stream40");
	assert_hides(text, "stream00");
	free(text);
	(void)top_view_key(&view, TOP_KEY_END);
	(void)top_view_key(&view, TOP_KEY_DOWN);
	text = draw(&view, 80, 12);
	assert_shows(text, "stream63");
	free(text);
	/* By images/s: the selected one is followed to its new place. */
	(void)top_view_key(&view, 'o');
	(void)top_view_key(&view, 'o');
	text = draw(&view, 80, 12);
	assert_shows(text, "stream63");
	assert_shows(text, "order: images/s");
	assert_int_equal(view.selected, 0);
	free(text);
	(void)top_view_key(&view, 't');
	text = draw(&view, 80, 12);
	assert_shows(text, "1000");
	assert_hides(text, "1255");
	free(text);
	for (int i = 0; i < 100; i++)
		(void)top_view_key(&view, TOP_KEY_PAGE_DOWN);
	text = draw(&view, 80, 12);
	assert_shows(text, "1255");
	free(text);
	(void)top_view_key(&view, TOP_KEY_HOME);
	(void)top_view_key(&view, 'o');
	text = draw(&view, 80, 12);
	assert_shows(text, "1255");
	assert_shows(text, "order: waits");
	free(text);
	document_free(root);
}

static void test_interval(void **state)
{
	(void)state;
	struct node *root = parse("{}");
	struct top_view view = view_of(root);
	(void)top_view_key(&view, '+');
	assert_true(view.interval_s == 2);
	for (int i = 0; i < 20; i++)
		(void)top_view_key(&view, '+');
	assert_true(view.interval_s == TOP_INTERVAL_MOST_S);
	for (int i = 0; i < 20; i++)
		(void)top_view_key(&view, '-');
	assert_true(view.interval_s == TOP_INTERVAL_LEAST_S);
	view.interval_s = 3;
	(void)top_view_key(&view, '-');
	assert_true(view.interval_s == 2);
	(void)top_view_key(&view, 'p');
	char *text = draw(&view, 80, 24);
	assert_shows(text, "paused");
	free(text);
	document_free(root);
}

static void test_the_daemon_is_gone(void **state)
{
	(void)state;
	struct node *root = parse(full);
	struct top_view view = view_of(root);
	(void)strcpy(view.gone, "penstockd (pid 4121) has ended: `penstock why` tells how");
	char *text = draw(&view, 80, 10);
	assert_shows(text, "`penstock why`");
	assert_shows(text, "1,234/5,004");
	free(text);
	text = draw(&view, 40, 4);
	assert_shows(text, "has ended");
	free(text);
	document_free(root);
}

static void test_text(void **state)
{
	(void)state;
	struct node *root = parse(full);
	struct top_view view = view_of(root);
	struct paper paper;
	view.plain = true;
	view.utf8 = false;
	paper_init(&paper, 100, false);
	top_view_print(&view, &paper);
	char *text = text_of(&paper);
	for (const char *c = text; *c; c++)
		assert_true((unsigned char)*c < 0x7f && (*c >= ' ' || *c == '\n'));
	assert_shows(text, "##########------ 62 %");
	assert_shows(text, "1,234/5,004");
	assert_shows(text, "4131");
	assert_shows(text, "pread instead");
	assert_hides(text, "quit");
	free(text);
	paper_free(&paper);
	document_free(root);
}

static void test_paper(void **state)
{
	(void)state;
	struct paper paper;
	paper_init(&paper, 12, true);
	paper_put(&paper, 0, "nowhere yet");
	paper_line(&paper);
	/* Wide ones take two cells; what steers and what is broken is a ?; marks combine. */
	paper_put(&paper, PAPER_BOLD, "%s", "\xe4\xb8\xad\x1b[e\xcc\x81\xff\xe2\x80\xae\x9f.");
	char *text = text_of(&paper);
	assert_string_equal(text, "\xe4\xb8\xad?[e\xcc\x81???.\n");
	free(text);
	assert_int_equal(paper.at, 9);
	assert_int_equal(paper_at(&paper, 0, 0)->attr, PAPER_BOLD);
	assert_string_equal(paper_at(&paper, 0, 1)->text, "");
	assert_null(paper_at(&paper, 0, 12));
	assert_null(paper_at(&paper, 1, 0));
	paper_line(&paper);
	/* A wide one that would be cut in two is left out. */
	paper_put(&paper, 0, "%s", "12345678901\xe4\xb8\xad");
	assert_int_equal(paper.at, 11);
	paper_line(&paper);
	paper_field(&paper, 0, "123456789", 5, false);
	paper_field(&paper, 0, "12", 5, true);
	paper_line(&paper);
	paper_tab(&paper, 4);
	paper_wrap(&paper, 0, "one two three abcdefghijkl");
	paper_line(&paper);
	paper_tab(&paper, 4);
	paper_wrap(&paper, 0, "/ab/cd/efghijk.l");
	text = text_of(&paper);
	assert_shows(text, "1234…   12\n");
	assert_shows(text, "    one two\n    three\n    abcdefgh\n    ijkl\n");
	assert_shows(text, "    /ab/cd/\n    efghijk.\n    l\n");
	free(text);
	paper_free(&paper);
	/* Elsewhere than in UTF-8: a ? for each character. */
	assert_int_equal(paper_columns("\xe4\xb8\xad\xc3\xa9", false), 2);
	assert_int_equal(paper_columns("\xe4\xb8\xad\xc3\xa9", true), 3);
}

static void test_bars(void **state)
{
	(void)state;
	char bar[BAR_ROOM];
	assert_string_equal(bar_share(0.5, 4, false, bar), "##--");
	assert_string_equal(bar_share(-1, 4, false, bar), "----");
	assert_string_equal(bar_share(7, 4, false, bar), "####");
	assert_string_equal(bar_share(0.0 / 0.0, 2, false, bar), "--");
	assert_string_equal(bar_share(0.3125, 2, true, bar), "▋░");
	assert_int_equal(strlen(bar_share(1, 1000, true, bar)), 3 * BAR_CELLS);
	const double amounts[BAR_KINDS] = {3, 2, 1, 10}, little[BAR_KINDS] = {0, 1, 0, 1000},
		     none[BAR_KINDS] = {0};
	assert_string_equal(bar_parts(amounts, BAR_KINDS, 16, false, bar), "###==-..........");
	assert_string_equal(bar_parts(little, BAR_KINDS, 4, false, bar), "=...");
	assert_string_equal(bar_parts(none, BAR_KINDS, 4, false, bar), "");
}

/* Run by hand: top_parts WIDTH HEIGHT [KEYS] prints a picture. */
static int picture(int argc, char **argv)
{
	struct node *root = parse(full);
	struct top_view view = view_of(root);
	for (const char *key = argc > 3 ? argv[3] : ""; *key; key++)
		(void)top_view_key(&view, *key == '.' ? TOP_KEY_ENTER : *key);
	char *text = draw(&view, atoi(argv[1]), atoi(argv[2]));
	(void)fputs(text, stdout);
	free(text);
	document_free(root);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_page),
		cmocka_unit_test(test_told_apart),
		cmocka_unit_test(test_width_is_used),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_closer),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_anything_may_be_missing),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_wholes),
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_many_are_scrolled),
		cmocka_unit_test(test_interval),
		cmocka_unit_test(test_the_daemon_is_gone),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_paper),
		cmocka_unit_test(test_bars),
	};
	if (!setlocale(LC_CTYPE, "C.UTF-8")) {
		(void)printf("no locale of UTF-8 here\n");
		return 77;
	}
	if (argc > 2)
		return picture(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
