// The other half of the stand-in for NVIDIA's driver, and CUDA's runtime: memory is the computer's
// own, and kernels are functions of a library that FAKE_CUDA_KERNELS names, one `launch_<name>` for
// each. What is launched on a stream that is being captured is kept, and runs when its graph does.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <map>
#include <vector>

namespace {
typedef int (*Launch)(const int* size, void** arguments);

struct Function {
  Launch launch;
  int count;  // of its arguments
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

enum Error { kNone, kInvalid = 1, kNoMemory = 2, kNotFound = 500, kFailed = 719, kCaptured = 906 };

std::map<char*, size_t> allocations;
std::map<void*, Graph> capturing;  // by stream
size_t limit() {
  const char* gib = getenv("FAKE_CUDA_MEMORY_BYTES");
  return gib ? atoll(gib) : size_t(1) << 30;
}

int run(const Captured& kept) {
  std::vector<void*> pointers;
  for (const uint64_t& value : kept.arguments) pointers.push_back((void*)&value);
  return kept.function.launch(kept.size, pointers.data()) ? kFailed : kNone;
}
}  // namespace

extern "C" {
int fake_launches, fake_graphs;  // launched one by one; graphs launched

// Return how many bytes of an allocation begin at `address`.
int64_t fake_bytes(const void* address) {
  auto after = allocations.upper_bound((char*)address);
  if (after == allocations.begin()) return 0;
  auto [start, bytes] = *--after;
  int64_t left = start + bytes - (char*)address;
  return left > 0 ? left : 0;
}

int cuModuleLoadData(void** module, const void* image) {
  const uint32_t kFatBinary = 0xba55ed50;
  if (*(const uint32_t*)image != kFatBinary) return kInvalid;
  *module = dlopen(getenv("FAKE_CUDA_KERNELS"), RTLD_NOW);
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
  Captured kept{*function};
  for (int i = 0; i < 6; ++i) kept.size[i] = config->size[i];
  for (int i = 0; i < function->count; ++i) kept.arguments.push_back(*(uint64_t*)arguments[i]);
  auto graph = capturing.find(config->stream);
  if (graph != capturing.end()) {
    graph->second.push_back(kept);
    return kNone;
  }
  ++fake_launches;
  return run(kept);
}

int cuFuncSetAttribute(void* function, int attribute, int value) { return kNone; }
int cuTensorMapEncodeTiled() { return kInvalid; }

int cuGetErrorName(int error, const char** text) {
  *text = "an error of the fake driver";
  return kNone;
}

int cuGetErrorString(int error, const char** text) { return cuGetErrorName(error, text); }

int cudaMalloc(void** address, size_t bytes) {
  size_t used = bytes;
  for (auto& [start, size] : allocations) used += size;
  if (used > limit()) return kNoMemory;
  *address = aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset(*address, 0xa5, bytes);  // memory of a GPU holds what was there before
  allocations[(char*)*address] = bytes;
  return kNone;
}

int cudaFree(void* address) {
  allocations.erase((char*)address);
  free(address);
  return kNone;
}

int cudaMallocHost(void** address, size_t bytes) { return (*address = malloc(bytes)) ? kNone : kNoMemory; }

int cudaFreeHost(void* address) {
  free(address);
  return kNone;
}

int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (capturing.count(stream)) return kCaptured;
  memcpy(to, from, bytes);
  return kNone;
}

int cudaMemGetInfo(size_t* left, size_t* all) {
  *left = *all = limit();
  return kNone;
}

int cudaStreamCreate(void** stream) { return (*stream = malloc(1)) ? kNone : kNoMemory; }
int cudaStreamCreateWithFlags(void** stream, unsigned flags) { return cudaStreamCreate(stream); }

int cudaStreamDestroy(void* stream) {
  free(stream);
  return kNone;
}

int cudaStreamSynchronize(void* stream) { return capturing.count(stream) ? kCaptured : kNone; }

int cudaStreamBeginCapture(void* stream, int mode) {
  capturing[stream];
  return kNone;
}

int cudaStreamEndCapture(void* stream, void** graph) {
  *graph = new Graph(capturing[stream]);
  capturing.erase(stream);
  return kNone;
}

int cudaGraphInstantiate(void** ready, Graph* graph, unsigned long long flags) {
  *ready = new Graph(*graph);
  return kNone;
}

int cudaGraphLaunch(Graph* graph, void* stream) {
  ++fake_graphs;
  for (const Captured& kept : *graph) {
    if (int error = run(kept)) return error;
  }
  return kNone;
}

int cudaGraphDestroy(Graph* graph) {
  delete graph;
  return kNone;
}

int cudaGraphExecDestroy(Graph* graph) { return cudaGraphDestroy(graph); }

int cuDeviceGetCount(int* count);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cudaGetDeviceCount(int* count) { return cuDeviceGetCount(count); }

int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (cuDeviceGetAttribute(value, attribute, device)) *value = attribute == 10 ? 32 : 1024;
  return kNone;  // 10 is the size of a warp
}

static int device_in_use;
int cudaGetDevice(int* device) {
  *device = device_in_use;
  return kNone;
}

int cudaSetDevice(int device) {
  device_in_use = device;
  return kNone;
}

int cudaGetLastError() { return kNone; }
int cudaPeekAtLastError() { return kNone; }
const char* cudaGetErrorName(int error) { return error == kNoMemory ? "cudaErrorMemoryAllocation" : "cudaError"; }
const char* cudaGetErrorString(int error) { return error == kNoMemory ? "out of memory" : "an error of the fake runtime"; }
int cudaGetDeviceProperties(void* properties, int device) { return kInvalid; }
int cudaMemcpyPeerAsync() { return kInvalid; }
int cudaStreamWaitEvent() { return kNone; }

// Events are the computer's clock: nothing here runs behind.
int cudaEventCreate(timespec** event) {
  *event = new timespec();
  return kNone;
}

int cudaEventDestroy(timespec* event) {
  delete event;
  return kNone;
}

int cudaEventRecord(timespec* event, void* stream) { return clock_gettime(CLOCK_MONOTONIC, event); }
int cudaEventSynchronize(timespec* event) { return kNone; }

int cudaEventElapsedTime(float* ms, timespec* start, timespec* end) {
  *ms = (end->tv_sec - start->tv_sec) * 1e3 + (end->tv_nsec - start->tv_nsec) * 1e-6;
  return kNone;
}
}
