// Long calls that can be ended from outside, as by Ctrl-C.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace vi_contact {

// Asks now and then whether to stop: by the clock, so that slow iterations and quick ones are seen
// to alike, and cheap enough for every iteration.
class Watch {
 public:
  explicit Watch(std::function<bool()> ask) : ask_(std::move(ask)) {}

  // Once true it stays so.
  bool stops() {
    if (stopped_ || --calls_left_ > 0) return stopped_;
    const Clock::time_point now = Clock::now();
    stride_ = now - last_ < look ? std::min(2 * stride_, longest_stride) : 1;
    last_ = now;
    calls_left_ = stride_;
    if (now < next_) return false;
    next_ = now + interval;
    return stopped_ = ask_();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds interval{50}, look{1};
  static constexpr int longest_stride = 64;  // calls between two looks at the clock

  std::function<bool()> ask_;
  Clock::time_point last_ = Clock::now(), next_ = last_ + interval;
  int stride_ = 1, calls_left_ = 1;
  bool stopped_ = false;
};

}  // namespace vi_contact
