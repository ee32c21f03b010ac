// read_batches in C++: types that close the handles, and errors as exceptions. Reads every image
// once, in order, with the evaluation recipe.
//
//   read_batches_cpp SOURCE
#include "handles.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

namespace
{

void count_labels(const std::string &source)
{
	penstock_options options;
	penstock_options_init(&options);
	options.source = source.c_str();
	options.train = 0;
	options.epochs = 1;

	penstock::Stream stream(options);
	unsigned long long images = 0, invalid = 0;
	long long highest = -1;
	while (const auto batch = stream.next()) {
		const penstock_batch &rows = **batch;
		for (unsigned row = 0; row < rows.count; row++) {
			invalid += (rows.samples[row].flags & PENSTOCK_INVALID) != 0;
			highest = std::max<long long>(highest, rows.labels[row]);
		}
		images += rows.count;
	}
	std::printf("%llu images, %llu of them broken, highest label %lld\nstate %s\n", images,
		invalid, highest, stream.state().c_str());
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
