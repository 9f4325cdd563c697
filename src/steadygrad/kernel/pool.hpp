// Threads that wait for the next call. Results never depend on how many there are.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>
#if !defined(_WIN32)
#include <unistd.h>
#endif

namespace steadygrad {

class Pool {
 public:
  // Runs work(0) … work(count - 1) on up to `threads` threads, the caller's among them.
  static void run(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
    static std::mutex one_at_a_time;
    std::unique_lock<std::mutex> turn(one_at_a_time, std::try_to_lock);
    // A second caller would wait for the first one's threads: it is quicker alone.
    if (threads < 2 || count < 2 || !turn.owns_lock()) {
      for (int64_t i = 0; i < count; ++i) work(i);
      return;
    }
    current().start(count, std::min({threads, count, kMostHelpers}), work);
  }

 private:
  // Threads do not survive fork(): a child makes its own pool and leaves its parent's untouched.
  static Pool& current() {
    static Pool* pool = nullptr;
    static int64_t owner = -1;
#if defined(_WIN32)
    const int64_t process = 0;
#else
    const int64_t process = getpid();
#endif
    if (owner != process) {
      pool = new Pool;  // never destroyed: its threads sleep until the process ends
      owner = process;
    }
    return *pool;
  }

  void start(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
    while (static_cast<int64_t>(workers_.size()) < threads - 1) {
      const int64_t id = workers_.size();
      workers_.emplace_back([this, id] { wait(id); });
      workers_.back().detach();
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      count_ = count;
      next_.store(0);
      busy_.store(threads - 1);
      round_.store((round_.load() / kMostHelpers + 1) * kMostHelpers + threads - 1);
    }
    wake_.notify_all();
    take();
    while (busy_.load() > 0) pause();
  }

  void take() {
    for (int64_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) (*work_)(i);
  }

  void wait(int64_t id) {
    for (int64_t seen = 0;;) {
      // The backward call follows the forward call within microseconds: look for it before going to sleep.
      for (int spin = 0; spin < 10000 && round_.load() == seen; ++spin) pause();
      if (round_.load() == seen) {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return round_.load() != seen; });
      }
      seen = round_.load();
      if (id < seen % kMostHelpers) {
        take();
        busy_.fetch_sub(1);
      }
    }
  }

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  const std::function<void(int64_t)>* work_ = nullptr;
  int64_t count_ = 0;
  // A round's number and how many workers it has, in one: a worker that sat out a round must not read another's.
  static constexpr int64_t kMostHelpers = 1024;
  std::atomic<int64_t> next_{0}, busy_{0}, round_{0};
};

}  // namespace steadygrad
