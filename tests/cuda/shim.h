// Runs CUDA C that TVM generates on the CPU: the threads of a block are fibers of one OS thread.
// __shared__ arrays lie in one section of the library, which is filled with garbage before every
// block. A barrier that some threads of a block do not reach, or reach elsewhere, is an error; so is
// an access outside of an argument, or at an address that its size does not divide.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

struct dim3 {
  int x, y, z;
  int size() const { return x * y * z; }
  dim3 at(int i) const { return {i % x, i / x % y, i / (x * y)}; }
};

namespace shim {
enum Error { kNone, kDivergence, kOutside, kMisaligned };
constexpr int kExited = -1;
constexpr int kNotStarted = 0;
constexpr int kMostThreads = 1024;
constexpr size_t kStack = 1 << 16;

struct Thread {
  ucontext_t context;
  char* stack;
  int barrier;  // the line it waits at
};

static Thread threads[kMostThreads];
static ucontext_t scheduler;
static void (*kernel)();
static int current;
static dim3 thread_index, block_index, block_size;
static Error error;  // the first of the launch

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

static void enter() {
  kernel();
  threads[current].barrier = kExited;
}

static void barrier(int line) {
  threads[current].barrier = line;
  swapcontext(&threads[current].context, &scheduler);
  thread_index = block_size.at(current);
}

static void start(Thread& thread) {
  if (!thread.stack) thread.stack = (char*)malloc(kStack);
  thread.barrier = kNotStarted;
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack;
  thread.context.uc_stack.ss_size = kStack;
  thread.context.uc_link = &scheduler;
  makecontext(&thread.context, enter, 0);
}

// Runs one block to its end; each pass takes every thread to its next barrier. Odd passes go
// backwards, so that what a thread reads without a barrier was sometimes written, sometimes not.
static Error run_block() {
  int count = block_size.size();
  for (int i = 0; i < count; ++i) start(threads[i]);
  for (int pass = 0;; ++pass) {
    for (int i = 0; i < count; ++i) {
      current = pass % 2 ? count - 1 - i : i;
      thread_index = block_size.at(current);
      swapcontext(&scheduler, &threads[current].context);
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

extern "C" char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));

namespace shim {
static Error launch(const int* size, bool has_barriers) {
  dim3 grid = {size[0], size[1], size[2]};
  block_size = {size[3], size[4], size[5]};
  error = kNone;
  for (int i = 0; i < grid.size(); ++i) {
    block_index = grid.at(i);
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
SHIM_VECTORS(float, float)

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline int __float2int_rn(float a) {
  return a >= 0x1p31f ? INT32_MAX : a < -0x1p31f ? INT32_MIN : int(nearbyint(a));
}

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
