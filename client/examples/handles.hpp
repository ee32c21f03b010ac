// libpenstock's handles as C++ types that close themselves, and its failures as exceptions. Copy it
// into your program.
//
// One thread at a time may use a Stream. A Batch must not outlive its Stream, because its pointers
// point into the daemon's memory.
#pragma once

#include <penstock/penstock.h>

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock
{

// A negative result becomes an exception with libpenstock's sentence.
class Error : public std::runtime_error
{
      public:
	explicit Error(int code) : std::runtime_error(penstock_error()), code_(code)
	{
	}
	int code() const
	{
		return code_;
	}

      private:
	int code_; // a negative errno
};

inline int check(int result)
{
	if (result < 0)
		throw Error(result);
	return result;
}

// Holds a batch of a stream and gives it back at the end of its scope at the latest.
class Batch
{
      public:
	Batch(penstock_stream *stream, const penstock_batch &batch) : stream_(stream), batch_(batch)
	{
	}
	Batch(Batch &&other) noexcept
	    : stream_(std::exchange(other.stream_, nullptr)), batch_(other.batch_)
	{
	}
	Batch(const Batch &) = delete;
	Batch &operator=(const Batch &) = delete;
	Batch &operator=(Batch &&) = delete;
	~Batch()
	{
		if (stream_)
			(void)penstock_batch_release(stream_, &batch_);
	}

	// Gives the batch back and reports whether this trainer still had it. If a laggard can be
	// detached from its group, what was read of a batch counts only after this.
	void release()
	{
		check(penstock_batch_release(std::exchange(stream_, nullptr), &batch_));
	}
	const penstock_batch *operator->() const
	{
		return &batch_;
	}
	const penstock_batch &operator*() const
	{
		return batch_;
	}

      private:
	penstock_stream *stream_; // nullptr: given back, or moved from
	penstock_batch batch_;
};

class Stream
{
      public:
	explicit Stream(const penstock_options &options)
	{
		penstock_stream *stream = nullptr;
		check(penstock_stream_open(&options, &stream));
		stream_.reset(stream);
	}

	// Empty after the last epoch.
	std::optional<Batch> next(int timeout_ms = PENSTOCK_TIMEOUT_DEFAULT)
	{
		penstock_batch batch{};
		if (check(penstock_stream_next(stream_.get(), &batch, timeout_ms)) == PENSTOCK_END)
			return std::nullopt;
		return std::optional<Batch>(std::in_place, stream_.get(), batch);
	}
	// The loop's position, for penstock_options::state of the next run.
	std::string state() const
	{
		std::array<char, 512> text{};
		check(penstock_stream_state(stream_.get(), text.data(), text.size()));
		return text.data();
	}
	struct penstock_stream_info info() const
	{
		struct penstock_stream_info info {
		};
		penstock_stream_info(stream_.get(), &info);
		return info;
	}

      private:
	struct Closer {
		void operator()(penstock_stream *stream) const
		{
			penstock_stream_close(stream);
		}
	};
	std::unique_ptr<penstock_stream, Closer> stream_;
};

} // namespace penstock
