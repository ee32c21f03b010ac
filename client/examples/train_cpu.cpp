// train_cpu in C++: the same net and, bit for bit, the same weights, with an evaluation after each
// epoch.
//
//   train_cpu_cpp TRAIN [--val SOURCE] [--steps N] [--epochs N] [--seed N] [--rate 0.02]
//                 [--checkpoint FILE [--resume]]
//
// train_cpu (C) shows each call; this program shows the same calls in types of C++ (handles.hpp):
// nothing is closed or given back by hand, failures are exceptions, and one place, main, reports
// them.
//
// Ctrl-C and SIGTERM end the run after its current step, or while it waits, with a checkpoint. The
// resumed run begins with exactly the batch that comes next. One thread.
#include "handles.hpp"

#include "net.h"

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace
{

constexpr unsigned BATCH = 64;
constexpr char MAGIC[] = "TRAINCPP";
constexpr unsigned UNFIT = PENSTOCK_INVALID | PENSTOCK_PADDED;

volatile std::sig_atomic_t stop_asked;

// The command line is wrong; the program exits with 2.
struct Usage : std::runtime_error {
	using std::runtime_error::runtime_error;
};

struct Arguments {
	std::string train, val, checkpoint;
	std::uint64_t steps = 0, epochs = 3, seed = 0;
	float rate = 0.02F;
	bool resume = false;
};

class Net
{
      public:
	Net(unsigned classes, std::uint64_t seed)
	{
		net_init(&net_, classes, seed);
	}
	~Net()
	{
		net_deinit(&net_);
	}
	Net(const Net &) = delete;
	Net &operator=(const Net &) = delete;
	net *get()
	{
		return &net_;
	}

      private:
	net net_{};
};

// What a checkpoint file holds: weights and the loader's state, taken at the same moment.
struct Checkpoint {
	std::uint64_t step = 0, count = 0;
	std::string state;
	std::vector<float> weights; // parameters, then their momentum
};

void put(std::ostream &file, const void *data, std::size_t bytes)
{
	file.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
}

// The file is either the old one or the new one, never a part of one.
void save(const std::string &path, const Checkpoint &checkpoint)
{
	const std::string temporary = path + ".new";
	std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
	file << MAGIC << '\n'
	     << checkpoint.step << ' ' << checkpoint.count << '\n'
	     << checkpoint.state << '\n';
	put(file, checkpoint.weights.data(), checkpoint.weights.size() * sizeof(float));
	file.close();
	if (!file || std::rename(temporary.c_str(), path.c_str()) != 0)
		throw std::runtime_error("cannot write " + temporary + ": " + std::strerror(errno));
}

Checkpoint load(const std::string &path)
{
	Checkpoint checkpoint;
	std::string line;
	std::ifstream file(path, std::ios::binary);
	if (!file)
		throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
	const bool ours = std::getline(file, line) && line == MAGIC;
	if (!ours || !(file >> checkpoint.step >> checkpoint.count) || file.get() != '\n' ||
		!std::getline(file, checkpoint.state))
		throw std::runtime_error(path + " is not a checkpoint of train_cpu_cpp");
	const std::streamoff begin = file.tellg();
	file.seekg(0, std::ios::end);
	const auto bytes = static_cast<std::uint64_t>(file.tellg() - begin);
	if (checkpoint.count > bytes || bytes != 2 * checkpoint.count * sizeof(float))
		throw std::runtime_error(path + " is too short or too long");
	file.seekg(begin);
	checkpoint.weights.resize(2 * checkpoint.count);
	file.read(reinterpret_cast<char *>(checkpoint.weights.data()),
		static_cast<std::streamsize>(bytes));
	if (!file)
		throw std::runtime_error("cannot read " + path);
	return checkpoint;
}

// Both streams have the same shape. While it blocks, the library asks whether to go on, so that
// Ctrl-C takes effect.
penstock_options options_for(const std::string &source, bool train)
{
	penstock_options options;
	penstock_options_init(&options);
	options.source = source.c_str(); // outlives the opening
	options.batch_size = BATCH;
	options.image_size = NET_SIDE;
	options.train = train;
	options.interrupt = [](void *) -> int { return stop_asked; };
	return options;
}

penstock_options training_options(const Arguments &arguments, const Checkpoint &begin)
{
	penstock_options options = options_for(arguments.train, true);
	options.seed = arguments.seed;
	options.epochs = arguments.epochs;
	options.state = begin.state.empty() ? nullptr : begin.state.c_str();
	return options;
}

struct Tally {
	double loss = 0;
	std::uint64_t right = 0, rows = 0;

	void print(const char *what) const
	{
		if (rows)
			std::printf("%s: loss %.3f, accuracy %.1f %% of %" PRIu64 " images\n", what,
				loss / static_cast<double>(rows),
				100.0 * static_cast<double>(right) / static_cast<double>(rows),
				rows);
		(void)std::fflush(stdout);
	}
};

class Trainer
{
      public:
	explicit Trainer(const Arguments &arguments)
	    : arguments_(arguments),
	      begin_(arguments.resume ? load(arguments.checkpoint) : Checkpoint{}),
	      stream_(training_options(arguments, begin_)), classes_(stream_.info().classes),
	      net_(classes_, arguments.seed + 1), step_(begin_.step)
	{
		const auto info = stream_.info();
		if (classes_ == 0)
			throw std::runtime_error(
				arguments.train + " has no class folders: this example needs them");
		if (arguments.resume)
			restore();
		std::printf("%" PRIu64 " images in %u classes; step %" PRIu64 ", batch %" PRIu64
			    " of epoch %" PRIu64 "\n",
			info.samples, classes_, step_, info.batch, info.epoch);
		(void)std::fflush(stdout);
	}

	void run()
	{
		try {
			while (wanted() && train_step()) {
			}
		} catch (const penstock::Error &error) {
			if (error.code() != -EINTR)
				throw;
		}
		keep();
		std::printf("%s after step %" PRIu64 ", weights %016" PRIx64 "\n",
			stop_asked ? "interrupted" : "done", step_, net_hash(net_.get()));
	}

      private:
	bool wanted() const
	{
		return !stop_asked && (arguments_.steps == 0 || step_ < arguments_.steps);
	}

	bool train_step()
	{
		auto batch = stream_.next();
		if (!batch)
			return false;
		const bool last = (*batch)->flags & PENSTOCK_LAST;
		for (unsigned row = 0; row < (*batch)->count; row++)
			see(**batch, row, net_learn, epoch_);
		net_step(net_.get(), arguments_.rate, (*batch)->count);
		step_++;
		batch->release();
		if (last)
			end_epoch();
		return true;
	}

	// `look` is net_learn or net_look.
	void see(const penstock_batch &batch, unsigned row, float (*look)(net *, unsigned, bool *),
		Tally &tally)
	{
		const std::int64_t label = batch.labels[row];
		if (label < 0 || label >= static_cast<std::int64_t>(classes_))
			throw std::runtime_error("label " + std::to_string(label) + ": there are " +
						 std::to_string(classes_) + " classes");
		bool right = false;
		net_take(net_.get(),
			static_cast<const std::uint8_t *>(batch.images) + row * batch.image_bytes);
		tally.loss += look(net_.get(), static_cast<unsigned>(label), &right);
		tally.right += right;
		tally.rows++;
	}

	void end_epoch()
	{
		epoch_.print("training");
		epoch_ = {};
		keep(); // before the evaluation, which may be interrupted
		if (!arguments_.val.empty())
			evaluate();
	}

	// Every image once. Rows that could not be decoded, or that only fill up the batch, do not
	// count.
	void evaluate()
	{
		penstock_options options = options_for(arguments_.val, false);
		options.epochs = 1;
		penstock::Stream stream(options);
		Tally tally;
		while (auto batch = stream.next())
			for (unsigned row = 0; row < (*batch)->count; row++)
				if (!((*batch)->samples[row].flags & UNFIT))
					see(**batch, row, net_look, tally);
		tally.print("evaluation");
	}

	void keep()
	{
		if (arguments_.checkpoint.empty())
			return;
		const net *net = net_.get();
		Checkpoint now{step_, net->count, stream_.state(), {}};
		now.weights.assign(net->parameters, net->parameters + net->count);
		now.weights.insert(now.weights.end(), net->momentum, net->momentum + net->count);
		save(arguments_.checkpoint, now);
	}

	void restore()
	{
		net *net = net_.get();
		if (begin_.count != net->count)
			throw std::runtime_error(
				arguments_.checkpoint +
				" belongs to a net with another number of classes");
		std::memcpy(net->parameters, begin_.weights.data(), net->count * sizeof(float));
		std::memcpy(net->momentum, begin_.weights.data() + net->count,
			net->count * sizeof(float));
		net_refresh(net);
	}

	const Arguments &arguments_;
	const Checkpoint begin_;
	penstock::Stream stream_;
	const unsigned classes_;
	Net net_;
	std::uint64_t step_;
	Tally epoch_;
};

const char *USAGE = "usage: train_cpu_cpp TRAIN [--val SOURCE] [--steps N] [--epochs N] [--seed N] "
		    "[--rate 0.02]\n"
		    "                     [--checkpoint FILE [--resume]]\n"
		    "Trains a small convolutional net with batches from penstock. TRAIN, SOURCE: "
		    "folders of class "
		    "folders.\n";

double number(std::string_view option, const std::string &text, double highest)
{
	char *end = nullptr;
	const double value = std::strtod(text.c_str(), &end);
	if (text.empty() || *end || !(value >= 0) || value > highest)
		throw Usage(std::string(option) + " " + text + ": expected a number from 0 to " +
			    std::to_string(highest));
	return value;
}

void take(Arguments &arguments, const std::string &option, const std::string &value)
{
	const auto count = [&] { return static_cast<std::uint64_t>(number(option, value, 1e15)); };
	if (option == "--val")
		arguments.val = value;
	else if (option == "--checkpoint")
		arguments.checkpoint = value;
	else if (option == "--steps")
		arguments.steps = count();
	else if (option == "--epochs")
		arguments.epochs = count();
	else if (option == "--seed")
		arguments.seed = count();
	else if (option == "--rate")
		arguments.rate = static_cast<float>(number(option, value, 10));
	else
		throw Usage("unknown option " + option);
}

Arguments parse(const std::vector<std::string> &words)
{
	Arguments arguments;
	for (std::size_t at = 0; at < words.size(); at++) {
		if (words[at] == "--resume")
			arguments.resume = true;
		else if (words[at].rfind("--", 0) != 0 && arguments.train.empty())
			arguments.train = words[at];
		else if (at + 1 == words.size())
			throw Usage(words[at] + ": not expected, or its value is missing");
		else {
			take(arguments, words[at], words[at + 1]);
			at++;
		}
	}
	if (arguments.train.empty() || (arguments.resume && arguments.checkpoint.empty()))
		throw Usage(arguments.train.empty() ? "TRAIN is missing"
						    : "--resume needs --checkpoint FILE");
	return arguments;
}

} // namespace

int main(int argc, char **argv)
{
	try {
		const std::vector<std::string> words(argv + 1, argv + argc);
		if (words == std::vector<std::string>{"--help"})
			return std::fputs(USAGE, stdout) < 0;
		const Arguments arguments = parse(words);
		struct sigaction action = {};
		action.sa_handler = [](int) { stop_asked = 1; };
		(void)sigaction(SIGINT, &action, nullptr);
		(void)sigaction(SIGTERM, &action, nullptr);
		Trainer(arguments).run();
	} catch (const Usage &error) {
		std::fprintf(stderr, "train_cpu_cpp: %s\n%s", error.what(), USAGE);
		return 2;
	} catch (const std::exception &error) {
		std::fprintf(stderr, "train_cpu_cpp: %s\n", error.what());
		return 1;
	}
	return 0;
}
