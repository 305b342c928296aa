// The other half of the stand-in for NVIDIA's driver: kernels are functions of a library, one
// `launch_<name>` for each. FAKE_CUDA_KERNELS names it, or a folder of such libraries, which are
// named by the checksums of what the GPU's own compiler has made. What is launched on a stream that is being
// captured is kept, and runs when its graph does (fake_runtime.cc).
#include <dlfcn.h>
#include <stdio.h>

#include "fake_gpu.h"

namespace fake {
std::recursive_mutex mutex;
std::map<char*, size_t> allocations, pinned;
std::map<void*, Capture> capturing;

int run(const Captured& kept) {
  std::vector<void*> pointers;
  for (const uint64_t& value : kept.arguments) pointers.push_back((void*)&value);
  return kept.function.launch(kept.size, pointers.data()) ? kFailed : kNone;
}

int on_default_stream(void* stream) {
  for (auto& [other, capture] : capturing) {
    if (stream || !capture.blocking) continue;
    capture.broken = true;  // it would have to wait for what is not done, and the reverse
    return kCaptured;
  }
  return kNone;
}
}  // namespace fake

using namespace fake;

struct Header {  // of a fat binary
  uint32_t magic;
  uint16_t version, start;
  uint64_t bytes;
};

// The CRC-32 of zlib.
static uint32_t checksum(const void* image, size_t bytes) {
  uint32_t sum = ~0u;
  for (size_t i = 0; i < bytes; ++i) {
    sum ^= ((const uint8_t*)image)[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum;
}

extern "C" {
int fake_launches, fake_graphs;
int fake_mallocs, fake_host_mallocs, fake_copies, fake_pageable_copies, fake_captures, fake_disturbances;

// Return how many bytes of an allocation begin at `address`.
int64_t fake_bytes(const void* address) {
  Lock lock(mutex);
  auto after = allocations.upper_bound((char*)address);
  if (after == allocations.begin()) return 0;
  auto [start, bytes] = *--after;
  int64_t left = start + bytes - (char*)address;
  return left > 0 ? left : 0;
}

int cuModuleLoadData(void** module, const void* image) {
  const uint32_t kFatBinary = 0xba55ed50;
  const Header* header = (const Header*)image;
  if (header->magic != kFatBinary) return kInvalid;
  const char* kernels = getenv("FAKE_CUDA_KERNELS");
  char file[4096];
  snprintf(file, sizeof file, "%s/%08x.so", kernels, checksum(image, header->start + header->bytes));
  *module = dlopen(strstr(kernels, ".so") ? kernels : file, RTLD_NOW);
  return *module ? kNone : kNotFound;
}

int cuModuleUnload(void* module) { return kNone; }

int cuModuleGetFunction(void** function, void* module, const char* name) {
  char symbol[512];
  snprintf(symbol, sizeof symbol, "launch_%s", name);
  Launch launch = (Launch)dlsym(module, symbol);
  snprintf(symbol, sizeof symbol, "count_%s", name);
  int* count = (int*)dlsym(module, symbol);
  if (!launch || !count) return kNotFound;
  *function = new Function{launch, *count};
  return kNone;
}

int cuLaunchKernelEx(const Config* config, Function* function, void** arguments, void** extra) {
  Lock lock(mutex);
  if (config->shared_bytes > function->shared_bytes) return kInvalid;
  Captured kept{*function};
  for (int i = 0; i < 6; ++i) kept.size[i] = config->size[i];
  for (int i = 0; i < function->count; ++i) kept.arguments.push_back(*(uint64_t*)arguments[i]);
  auto graph = capturing.find(config->stream);
  if (graph != capturing.end()) {
    graph->second.graph.push_back(kept);
    return kNone;
  }
  if (int error = on_default_stream(config->stream)) return error;
  ++fake_launches;
  return run(kept);
}

int cuFuncSetAttribute(Function* function, int attribute, int value) {
  const int kMostSharedBytes = 8;
  if (attribute != kMostSharedBytes || value > 99 << 10) return kInvalid;
  function->shared_bytes = value;
  return kNone;
}
int cuTensorMapEncodeTiled() { return kInvalid; }

int cuGetErrorName(int error, const char** text) {
  *text = "an error of the fake driver";
  return kNone;
}

int cuGetErrorString(int error, const char** text) { return cuGetErrorName(error, text); }
}
