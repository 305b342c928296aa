// What the stand-ins for NVIDIA's driver and for CUDA's runtime know both. The driver's library holds it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace fake {
typedef int (*Launch)(const int* size, void** arguments);

struct Function {
  Launch launch;
  int count;  // of its arguments
  unsigned shared_bytes = 48 << 10;  // that a launch may ask for, unless it was allowed more
};

struct Captured {
  Function function;
  int size[6];
  std::vector<uint64_t> arguments;
};

typedef std::vector<Captured> Graph;

struct Config {  // CUlaunchConfig, as far as it is needed
  unsigned size[6], shared_bytes;
  void* stream;
};

enum Error {
  kNone,
  kInvalid = 1,
  kNoMemory = 2,
  kBusy = 46,
  kNotFound = 500,
  kFailed = 719,
  kUnsupported = 900,  // by a capture
  kInvalidated = 901,
  kCaptured = 906
};

struct Capture {
  Graph graph;
  int mode;
  std::thread::id thread;
  bool blocking, broken;
};

enum Mode { kGlobal, kThreadLocal, kRelaxed };

extern std::recursive_mutex mutex;  // of all that follows, and of kernels: one at a time
extern std::map<char*, size_t> allocations, pinned;
extern std::map<void*, Capture> capturing;  // by stream
int run(const Captured& kept);
int on_default_stream(void* stream);  // the error of work on the default stream, if a capture forbids it
typedef std::lock_guard<std::recursive_mutex> Lock;
}  // namespace fake

extern "C" {
extern int fake_launches, fake_graphs;  // launched one by one; graphs launched
extern int fake_mallocs, fake_host_mallocs, fake_copies, fake_pageable_copies, fake_captures;
extern int fake_disturbances;  // what a capture has forbidden to another thread
}
