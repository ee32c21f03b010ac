// read_batches in C++: the handles in types that close themselves, errors as exceptions.
//
//   read_batches_cpp SOURCE     evaluation recipe: every image once, in order
#include "penstock/penstock.h"

#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace
{

// A negative result becomes an exception that says what libpenstock says.
int check(int result)
{
	if (result < 0)
		throw std::runtime_error(penstock_error());
	return result;
}

struct StreamCloser {
	void operator()(penstock_stream *stream) const
	{
		penstock_stream_close(stream);
	}
};
using Stream = std::unique_ptr<penstock_stream, StreamCloser>;

// Holds a batch; gives it back at the end of its scope.
class Batch
{
      public:
	explicit Batch(penstock_stream *stream) : stream_(stream)
	{
		end_ = check(penstock_stream_next(stream, &batch_, PENSTOCK_TIMEOUT_DEFAULT)) ==
		       PENSTOCK_END;
	}
	~Batch()
	{
		if (!end_)
			(void)penstock_batch_release(stream_, &batch_);
	}
	Batch(const Batch &) = delete;
	Batch &operator=(const Batch &) = delete;

	explicit operator bool() const
	{
		return !end_;
	}
	const penstock_batch *operator->() const
	{
		return &batch_;
	}

      private:
	penstock_stream *stream_;
	penstock_batch batch_ = {};
	bool end_;
};

Stream open_evaluation(const std::string &source)
{
	penstock_options options;
	penstock_options_init(&options);
	options.source = source.c_str();
	options.train = 0;
	options.epochs = 1;
	penstock_stream *stream = nullptr;
	check(penstock_stream_open(&options, &stream));
	return Stream(stream);
}

void count_labels(const std::string &source)
{
	Stream stream = open_evaluation(source);
	unsigned long long images = 0, invalid = 0;
	long long highest = -1;
	while (const Batch batch{stream.get()}) {
		for (unsigned row = 0; row < batch->count; row++) {
			invalid += (batch->samples[row].flags & PENSTOCK_INVALID) != 0;
			highest = batch->labels[row] > highest ? batch->labels[row] : highest;
		}
		images += batch->count;
	}
	std::array<char, 512> state{};
	check(penstock_stream_state(stream.get(), state.data(), state.size()));
	std::printf("%llu images, %llu of them broken, highest label %lld\nstate %s\n", images,
		invalid, highest, state.data());
}

} // namespace

int main(int argc, char **argv)
{
	const std::string_view first = argc > 1 ? argv[1] : "";
	const bool help = first == "--help" || first == "-h";
	if (help || argc != 2) {
		std::fprintf(help ? stdout : stderr, "usage: read_batches_cpp SOURCE\n");
		return help ? 0 : 2;
	}
	try {
		count_labels(argv[1]);
	} catch (const std::exception &error) {
		std::fprintf(stderr, "read_batches_cpp: %s\n", error.what());
		return 1;
	}
	return 0;
}
