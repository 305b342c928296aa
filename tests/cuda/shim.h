// Runs CUDA C that TVM generates on the CPU: the threads of a block are fibers of one OS thread.
// __shared__ arrays lie in one section of the library, which is filled with garbage before every
// block. A barrier that some threads of a block do not reach, or reach elsewhere, is an error; so is
// an access outside of an argument, or at an address that its size does not divide, and an instruction
// of a whole warp that some of its threads miss. What an asynchronous copy brings is garbage until its
// thread has waited for it.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

struct dim3 {
  int x, y, z;
  int size() const { return x * y * z; }
  dim3 at(int i) const { return {i % x, i / x % y, i / (x * y)}; }
};

extern "C" int shim_order;
int shim_order = 0;  // 1: odd passes go forwards, even ones backwards

namespace shim {
enum Error { kNone, kDivergence, kOutside, kMisaligned, kPartedWarp };
constexpr int kExited = -1;
constexpr int kNotStarted = 0;
constexpr int kMeeting = -2;  // at an instruction of its whole warp
constexpr int kWarp = 32;
constexpr int kMostArguments = 16;
constexpr int kMostCopies = 256;  // that a thread has under way
constexpr int kMostThreads = 1024;
constexpr size_t kStack = 1 << 16;

struct Copy {
  void* to;
  const void* from;
  int group;
};

struct Thread {
  ucontext_t context;   // in which it begins
  jmp_buf place;        // where it waits, once it has begun
  bool has_begun;
  char* stack;
  int barrier;          // the line it waits at
  int meetings;         // instructions of its warp so far
  int shown;            // operands of this one
  int operands[2][6];   // of this one and the one before
  int groups, copies;   // committed; under way
  Copy copy[kMostCopies];
};

struct Argument {
  char* start;
  int64_t bytes;
};

static Thread threads[kMostThreads];
static jmp_buf scheduler;
static void (*kernel)();
static int current;
static dim3 thread_index, block_index, block_size;
static Error error;  // the first of the launch
static Argument arguments[kMostArguments];
static int argument_count;
static int block_count;  // of all launches

// A pointer into an argument of `bytes` bytes at `start`.
template <class T>
struct Pointer {
  T* at;
  char* start;
  int64_t bytes;

  template <class U>
  U* checked() const {
    static long long elsewhere[8];
    int64_t offset = (char*)at - start;
    Error found = offset < 0 || offset + int64_t(sizeof(U)) > bytes ? kOutside
                  : offset % sizeof(U)                              ? kMisaligned
                                                                    : kNone;
    if (found == kNone) return (U*)at;
    if (error == kNone) error = found;
    return (U*)elsewhere;
  }
  Pointer operator+(int64_t i) const { return {at + i, start, bytes}; }
  T& operator[](int64_t i) const { return *(*this + i).template checked<T>(); }
  template <class U>
  operator U*() const { return checked<U>(); }
};

static void note_argument(void* start, int64_t bytes) {
  arguments[argument_count++] = {(char*)start, bytes};
}

// Returns an address that may be read, and notes the error if `at` may not.
static const void* checked_global(const void* at, int64_t size) {
  static char elsewhere[16] __attribute__((aligned(16)));
  Error found = kOutside;
  for (int i = 0; i < argument_count; ++i) {
    int64_t offset = (char*)at - arguments[i].start;
    if (offset >= 0 && offset + size <= arguments[i].bytes)
      found = offset % size ? kMisaligned : kNone;
  }
  if (error == kNone) error = found;
  return found == kNone ? at : elsewhere;
}

// Lets the scheduler go on. Jumps make no system calls, of which swapcontext makes two.
static void barrier(int line) {
  Thread& thread = threads[current];
  thread.barrier = line;
  if (_setjmp(thread.place) == 0) _longjmp(scheduler, 1);
  thread_index = block_size.at(current);
}

// A fiber serves one block after the other.
static void enter() {
  for (;;) {
    kernel();
    barrier(kExited);
  }
}

// Runs the current thread to its next barrier.
static void resume() {
  Thread& thread = threads[current];
  if (_setjmp(scheduler) != 0) return;
  if (thread.has_begun) _longjmp(thread.place, 1);
  thread.has_begun = true;
  setcontext(&thread.context);
}

// Shows `operands` to the warp; returns when all its threads have. The slots take turns, so that
// one meeting per instruction is enough. How many there are tells instructions apart.
template <int count>
static int meet(const int (&operands)[count]) {
  Thread& thread = threads[current];
  int slot = thread.meetings++ % 2;
  thread.shown = count;
  memcpy(thread.operands[slot], operands, sizeof operands);
  barrier(kMeeting);
  return slot;
}

static void start(Thread& thread) {
  bool is_idle = thread.barrier == kExited;
  thread.barrier = kNotStarted;
  thread.meetings = thread.groups = thread.copies = 0;
  if (is_idle) return;  // others have not begun, or a launch ended with an error while they waited
  if (!thread.stack) thread.stack = (char*)malloc(kStack);
  thread.has_begun = false;
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack;
  thread.context.uc_stack.ss_size = kStack;
  thread.context.uc_link = nullptr;
  makecontext(&thread.context, enter, 0);
}

// Takes the threads of a warp to their next barrier, from one meeting to the next.
static Error run_warp(int first, bool backwards) {
  int count = block_size.size() - first < kWarp ? block_size.size() - first : kWarp;
  do {
    for (int i = 0; i < count; ++i) {
      current = first + (backwards ? count - 1 - i : i);
      thread_index = block_size.at(current);
      resume();
    }
    int met = 0;
    for (int i = first; i < first + count; ++i)
      met += threads[i].barrier == kMeeting && threads[i].meetings == threads[first].meetings &&
             threads[i].shown == threads[first].shown;
    bool any = false;
    for (int i = first; i < first + count; ++i) any |= threads[i].barrier == kMeeting;
    // A shuffle shows one operand; it is of the threads that there are, an mma of 32.
    if (any && met < (threads[first].shown == 1 ? count : kWarp)) return kPartedWarp;
  } while (threads[first].barrier == kMeeting);
  return kNone;
}

// Runs one block to its end; each pass takes every thread to its next barrier. Odd passes go
// backwards, so that what a thread reads without a barrier was sometimes written, sometimes not.
static Error run_block() {
  int count = block_size.size(), warps = (count + kWarp - 1) / kWarp;
  for (int i = 0; i < count; ++i) start(threads[i]);
  for (int pass = shim_order;; ++pass) {
    for (int i = 0; i < warps; ++i) {
      Error parted = run_warp(kWarp * (pass % 2 ? warps - 1 - i : i), pass % 2);
      if (parted != kNone) return parted;
    }
    for (int i = 0; i < count; ++i)
      if (threads[i].barrier != threads[0].barrier) return kDivergence;
    if (threads[0].barrier == kExited) return kNone;
  }
}

static Error run_block_without_barriers() {
  for (int i = 0; i < block_size.size(); ++i) {
    thread_index = block_size.at(i);
    kernel();
  }
  return kNone;
}
}  // namespace shim

// The compiler has this called for every misaligned access to shared memory or registers.
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void*, void*) {
  if (shim::error == shim::kNone) shim::error = shim::kMisaligned;
}

extern "C" char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));

namespace shim {
static Error launch(const int* size, bool has_barriers) {
  dim3 grid = {size[0], size[1], size[2]};
  block_size = {size[3], size[4], size[5]};
  error = kNone;
  for (int i = 0; i < grid.size(); ++i) {
    block_index = grid.at(i);
    ++block_count;
    memset(__start_shared_memory, 0xA5, __stop_shared_memory - __start_shared_memory);
    Error parted = has_barriers ? run_block() : run_block_without_barriers();
    if (parted != kNone) return parted;
  }
  return error;
}
}  // namespace shim

#define threadIdx shim::thread_index
#define blockIdx shim::block_index
#define __syncthreads() shim::barrier(__LINE__)
#define __global__ static
#define __device__
#define __launch_bounds__(...)
#define __restrict__
#define __forceinline__ inline
#define __shared__ __attribute__((section("shared_memory"))) static
#define alignas(bytes) __attribute__((aligned(bytes)))
#define uint unsigned int
#define uchar unsigned char
#define ushort unsigned short
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_INF INFINITY
#define CUDART_NAN NAN

#define SHIM_VECTORS(type, name)                                                           \
  struct name##2 { type x, y; } __attribute__((aligned(2 * sizeof(type))));                \
  struct name##3 { type x, y, z; };                                                        \
  struct name##4 { type x, y, z, w; } __attribute__((aligned(4 * sizeof(type))));          \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                  \
  static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }       \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
SHIM_VECTORS(signed char, char)
SHIM_VECTORS(unsigned char, uchar)
SHIM_VECTORS(short, short)
SHIM_VECTORS(unsigned short, ushort)
SHIM_VECTORS(int, int)
SHIM_VECTORS(unsigned int, uint)
SHIM_VECTORS(long long, longlong)
SHIM_VECTORS(float, float)

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float shim_rsqrtf(float a) { return 1.0f / sqrtf(a); }
#define rsqrtf shim_rsqrtf  // the C library has a function of this name since glibc 2.42
static inline int __float2int_rn(float a) {
  return a >= 0x1p31f ? INT32_MAX : a < -0x1p31f ? INT32_MIN : int(nearbyint(a));
}

static inline float half_as_float(unsigned short bits) {
  _Float16 half;
  memcpy(&half, &bits, sizeof half);
  return half;
}
static inline float rounded_to_half(float x) { return float(_Float16(x)); }

static inline int byte_of(int word, int i) { return int8_t(word >> 8 * i); }
static inline int byte_of(unsigned word, int i) { return uint8_t(word >> 8 * i); }

template <class A>
static inline int __dp4a(A a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += byte_of(a, i) * byte_of(b, i);
  return c;
}

// CUDA's min and max of floats return the operand that is a number.
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
template <class A, class B>
static inline auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
template <class A, class B>
static inline auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }

// What a float is in the thread that `from` says, of groups of `width`; outside of one, one's own.
template <class From>
static inline float shuffled(float value, int width, From from) {
  int bits, lane = shim::current % 32 % width, first = shim::current - lane;
  memcpy(&bits, &value, sizeof bits);
  int slot = shim::meet({bits}), source = from(lane);
  if (source < 0 || source >= width) source = lane;
  bool exists = first + source < shim::block_size.size();
  bits = exists ? shim::threads[first + source].operands[slot][0] : int(0xA5A5A5A5);
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline unsigned __activemask() { return ~0u; }
static inline float __shfl_sync(unsigned, float value, int source, int width) {
  return shuffled(value, width, [=](int) { return source; });
}
static inline float __shfl_down_sync(unsigned, float value, int distance, int width) {
  return shuffled(value, width, [=](int lane) { return lane + distance; });
}
static inline float __shfl_up_sync(unsigned, float value, int distance, int width) {
  return shuffled(value, width, [=](int lane) { return lane - distance; });
}

// The sum over sixteen bytes of products of a row and a column, which lie in four threads' operands.
template <class X>
static inline int mma_sum(int row, int column, int slot, int x_word, int w_word) {
  int sum = 0;
  for (int i = 0; i < 16; ++i) {
    int x = shim::threads[row + i / 4].operands[slot][x_word] >> 8 * (i % 4);
    int w = shim::threads[column + i / 4].operands[slot][w_word] >> 8 * (i % 4);
    sum += X(x) * int8_t(w);
  }
  return sum;
}

// One mma: rows of x and columns of w are fours of threads; thread (g, t) has columns 2t and 2t + 1
// of row g.
template <class X>
static inline void mma_m8n8k16(int& d0, int& d1, int a, int b) {
  int slot = shim::meet({a, b}), lane = shim::current % 32, warp = shim::current - lane;
  int row = warp + lane / 4 * 4, column = warp + lane % 4 * 8;
  d0 += mma_sum<X>(row, column, slot, 0, 1);
  d1 += mma_sum<X>(row, column + 4, slot, 0, 1);
}

// Row g + 8 of x is in a1 and a3; the last sixteen bytes are in a2, a3 and b1.
template <class X>
static inline void mma_m16n8k32(int& d0, int& d1, int& d2, int& d3, int a0, int a1, int a2, int a3,
                                int b0, int b1) {
  int slot = shim::meet({a0, a1, a2, a3, b0, b1});
  int lane = shim::current % 32, warp = shim::current - lane;
  int row = warp + lane / 4 * 4, column = warp + lane % 4 * 8;
  int* d[] = {&d0, &d1, &d2, &d3};
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half)
      *d[i] += mma_sum<X>(row, column + i % 2 * 4, slot, i / 2 + 2 * half, 4 + half);
}

static inline void mma_m8n8k16_s8(int& d0, int& d1, int a, int b) {
  mma_m8n8k16<int8_t>(d0, d1, a, b);
}
static inline void mma_m8n8k16_u8(int& d0, int& d1, int a, int b) {
  mma_m8n8k16<uint8_t>(d0, d1, a, b);
}
static inline void mma_m16n8k32_s8(int& d0, int& d1, int& d2, int& d3, int a0, int a1, int a2,
                                   int a3, int b0, int b1) {
  mma_m16n8k32<int8_t>(d0, d1, d2, d3, a0, a1, a2, a3, b0, b1);
}
static inline void mma_m16n8k32_u8(int& d0, int& d1, int& d2, int& d3, int a0, int a1, int a2,
                                   int a3, int b0, int b1) {
  mma_m16n8k32<uint8_t>(d0, d1, d2, d3, a0, a1, a2, a3, b0, b1);
}

// Matrix i has rows at the addresses of lanes 8i .. 8i + 7; lane (g, t) gets word t of row g of each.
static inline void load_matrices(int& d0, int& d1, int& d2, int& d3, const void* row) {
  uint64_t at = (uint64_t)row;
  int slot = shim::meet({(int)at, (int)(at >> 32), 0});
  int lane = shim::current % 32, warp = shim::current - lane;
  int* d[] = {&d0, &d1, &d2, &d3};
  for (int i = 0; i < 4; ++i) {
    const auto& low_high = shim::threads[warp + 8 * i + lane / 4].operands[slot];
    const int* words = (const int*)((uint32_t)low_high[0] | (uint64_t)low_high[1] << 32);
    *d[i] = words[lane % 4];
  }
}

static inline void copy_async_16(void* to, const void* from) {
  shim::Thread& thread = shim::threads[shim::current];
  from = shim::checked_global(from, 16);
  memset(to, 0x5A, 16);
  if (thread.copies == shim::kMostCopies) abort();
  thread.copy[thread.copies++] = {to, from, thread.groups};
}
static inline int4 load_global_16(const void* from) {
  return *(const int4*)shim::checked_global(from, 16);
}
static inline void commit_async() { ++shim::threads[shim::current].groups; }

// Finishes all groups but the last `pending` that were committed.
template <int pending>
static inline void wait_async() {
  shim::Thread& thread = shim::threads[shim::current];
  int left = 0;
  for (int i = 0; i < thread.copies; ++i) {
    shim::Copy copy = thread.copy[i];
    if (copy.group < thread.groups - pending)
      memcpy(copy.to, copy.from, 16);
    else
      thread.copy[left++] = copy;
  }
  thread.copies = left;
}

// Whoever asks first of a block gets garbage.
template <int bytes>
static inline void* shared_memory() {
  static char memory[bytes] __attribute__((aligned(16)));
  static int block;
  if (block != shim::block_count) memset(memory, 0xA5, sizeof memory);
  block = shim::block_count;
  return memory;
}
template <int bytes>
static inline void* shared_bytes() {
  static_assert(bytes <= 48 << 10, "a block has no more shared memory than this");
  return shared_memory<48 << 10>();
}
static inline void* asked_bytes() { return shared_memory<99 << 10>(); }
