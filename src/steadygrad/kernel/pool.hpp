// Threads that wait for the next call. Results never depend on how many there are.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
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
  static constexpr int64_t kMostPieces = 16;

  // Runs work(0) … work(count - 1) on up to `threads` threads, the caller's among them; count is at most kMostPieces.
  static void run(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
    const Turn turn;
    // A second caller would wait for the first one's threads: it is quicker alone.
    if (threads < 2 || count < 2 || !turn.mine) {
      for (int64_t i = 0; i < count; ++i) work(i);
      return;
    }
    current().start(count, std::min(threads, count), work);
  }

 private:
  static int64_t process_id() {
#if defined(_WIN32)
    return 1;
#else
    return getpid();
#endif
  }

  // The right to use the pool's threads, by the process that holds it: a child forked while its parent had the turn must not take
  // that for its own, as it would a locked mutex.
  struct Turn {
    static std::atomic<int64_t>& holder() {
      static std::atomic<int64_t> process{0};  // set before the program runs: no lock guards it
      return process;
    }
    bool mine;
    Turn() {
      int64_t held = holder().load();
      mine = held != process_id() && holder().compare_exchange_strong(held, process_id());
    }
    ~Turn() {
      if (mine) holder().store(0);
    }
  };

  // Threads do not survive fork(): a child makes its own pool and leaves its parent's untouched.
  static Pool& current() {
    static Pool* pool = nullptr;
    static int64_t owner = -1;
    const int64_t process = process_id();
    if (owner != process) {
      pool = new Pool;  // never destroyed: its threads sleep until the process ends
      owner = process;
    }
    return *pool;
  }

  // One number says all that a worker must know of a round, so that it can't mix up two of them.
  struct Ticket {
    int64_t round, threads, count, taken;  // taken: a bit for each piece
    static constexpr int64_t kBits = kMostPieces;
    explicit Ticket(int64_t packed)
        : round(packed >> 3 * kBits), threads(packed >> 2 * kBits & kMask), count(packed >> kBits & kMask), taken(packed & kMask) {}
    static int64_t packed(int64_t round, int64_t threads, int64_t count) {
      return ((round << kBits | threads) << kBits | count) << kBits;
    }
    static constexpr int64_t kMask = (int64_t(1) << kBits) - 1;

    // The piece that this thread takes next, or -1: those of its own share first. What it worked on in the last round, and in the
    // call before, is then in its own core's cache. A thread that comes from a round of more threads may have no share in this one.
    int64_t choose(int64_t thread) const {
      if (thread >= threads) return -1;
      for (int64_t i = 0, piece = thread * count / threads; i < count; ++i, piece = piece + 1 < count ? piece + 1 : 0)
        if (!(taken >> piece & 1)) return piece;
      return -1;
    }
  };

  void start(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
    while (static_cast<int64_t>(workers_.size()) < threads - 1) {
      const int64_t id = workers_.size();
      workers_.emplace_back([this, id] { wait(id); });
      workers_.back().detach();
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      done_.store(0);
      const int64_t round = (Ticket(ticket_.load()).round + 1) & Ticket::kMask >> 1;
      ticket_.store(Ticket::packed(round, threads, count));
    }
    wake_.notify_all();
    take(0);
    // Only pieces that were begun are waited for: a worker that gets no core in time is not missed.
    const auto done = [&] { return done_.load() >= count; };
    if (look_for(done)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    caller_sleeps_.store(true);
    finished_.wait(lock, done);
    caller_sleeps_.store(false);
  }

  void take(int64_t thread) {
    for (;;) {
      int64_t packed = ticket_.load(), piece;
      do {
        piece = Ticket(packed).choose(thread);
        if (piece < 0) return;
      } while (!ticket_.compare_exchange_weak(packed, packed | int64_t(1) << piece));
      (*work_)(piece);
      done_.fetch_add(1);
      if (!caller_sleeps_.load()) continue;
      { std::lock_guard<std::mutex> lock(mutex_); }  // it looks at done_ or sleeps: in between, this would not wake it
      finished_.notify_one();
    }
  }

  void wait(int64_t id) {
    const auto round = [this] { return Ticket(ticket_.load()).round; };
    for (int64_t seen = 0;;) {
      const auto called = [&] { return round() != seen; };
      // The backward call follows the forward call within microseconds: look for it before going to sleep.
      if (!look_for(called)) {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, called);
      }
      const Ticket now(ticket_.load());
      seen = now.round;
      if (id < now.threads - 1) take(id + 1);
    }
  }

  // Looks for a short while whether it has come true. A waking thread takes as long as a small layer's step, so it is worth
  // looking; but on a machine with more busy threads than cores it takes a core from one that has work. So after the first
  // microseconds the core is offered to others each time, and once somebody took it, this thread goes to sleep.
  template <class Condition> static bool look_for(Condition condition) {
    using Clock = std::chrono::steady_clock;
    for (int look = 0; look < 100; ++look) {
      if (condition()) return true;
      pause();
    }
    const auto begin = Clock::now();
    for (auto before = begin; before - begin < std::chrono::microseconds(300);) {
      std::this_thread::yield();
      if (condition()) return true;
      const auto now = Clock::now();
      if (now - before > std::chrono::microseconds(20)) return false;
      before = now;
    }
    return condition();
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
  std::condition_variable wake_, finished_;
  const std::function<void(int64_t)>* work_ = nullptr;
  std::atomic<int64_t> ticket_{0}, done_{0};
  std::atomic<bool> caller_sleeps_{false};
};

}  // namespace steadygrad
