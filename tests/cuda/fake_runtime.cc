// Stands in for CUDA's runtime, on top of the driver's stand-in: memory is the computer's own.
//
//   FAKE_CUDA_MEMORY_BYTES  of a GPU
//   FAKE_CUDA_EXCLUSIVE     a file: the process that locks it has the GPU alone
//   FAKE_CUDA_NEIGHBOUR     1: while a stream is captured, another thread allocates, and copies on the default stream
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "fake_gpu.h"

using namespace fake;

static size_t limit() {
  const char* gib = getenv("FAKE_CUDA_MEMORY_BYTES");
  return gib ? atoll(gib) : size_t(1) << 30;
}

// Make the context of this process; a GPU in exclusive mode has one.
static int make_context() {
  static bool is_made;
  const char* path = getenv("FAKE_CUDA_EXCLUSIVE");
  if (is_made || !path) return kNone;
  int file = open(path, O_CREAT | O_RDWR, 0600);
  if (flock(file, LOCK_EX | LOCK_NB)) {
    close(file);
    return kBusy;
  }
  is_made = true;
  return kNone;
}

// Return the error of what may not be done while a stream is captured; that breaks the capture.
static int forbidden() {
  int error = kNone;
  for (auto& [stream, capture] : capturing) {
    bool own = capture.thread == std::this_thread::get_id();
    if (capture.mode == kRelaxed || (capture.mode == kThreadLocal && !own)) continue;
    capture.broken = true;
    error = kUnsupported;
  }
  return error;
}

static std::map<void*, unsigned> streams;  // and their flags: 1 does not wait for the default stream

extern "C" {
int cudaMalloc(void** address, size_t bytes) {
  Lock lock(mutex);
  if (int error = make_context()) return error;
  if (int error = forbidden()) return error;
  ++fake_mallocs;
  size_t used = bytes;
  for (auto& [start, size] : allocations) used += size;
  if (used > limit()) return kNoMemory;
  *address = aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset(*address, 0xa5, bytes);  // memory of a GPU holds what was there before
  allocations[(char*)*address] = bytes;
  return kNone;
}

int cudaFree(void* address) {
  Lock lock(mutex);
  allocations.erase((char*)address);
  free(address);
  return kNone;
}

int cudaMallocHost(void** address, size_t bytes) {
  Lock lock(mutex);
  ++fake_host_mallocs;
  if (!(*address = malloc(bytes))) return kNoMemory;
  pinned[(char*)*address] = bytes;
  return kNone;
}

int cudaFreeHost(void* address) {
  Lock lock(mutex);
  pinned.erase((char*)address);
  free(address);
  return kNone;
}

// Whether an address lies in memory that the GPU copies by itself.
static bool is_known(const void* address) {
  for (auto* memory : {&allocations, &pinned}) {
    auto after = memory->upper_bound((char*)address);
    if (after == memory->begin()) continue;
    auto [start, bytes] = *--after;
    if ((char*)address < start + bytes) return true;
  }
  return false;
}

int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  Lock lock(mutex);
  if (capturing.count(stream)) return kCaptured;
  if (int error = on_default_stream(stream)) return error;
  ++fake_copies;
  fake_pageable_copies += !is_known(to) || !is_known(from);
  memcpy(to, from, bytes);
  return kNone;
}

int cudaMemGetInfo(size_t* left, size_t* all) {
  *left = *all = limit();
  return kNone;
}

int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  Lock lock(mutex);
  if (!(*stream = malloc(1))) return kNoMemory;
  streams[*stream] = flags;
  return kNone;
}

int cudaStreamCreate(void** stream) { return cudaStreamCreateWithFlags(stream, 0); }

int cudaStreamDestroy(void* stream) {
  Lock lock(mutex);
  streams.erase(stream);
  free(stream);
  return kNone;
}

int cudaStreamSynchronize(void* stream) {
  Lock lock(mutex);
  return capturing.count(stream) ? kCaptured : kNone;
}

// What another thread does that knows nothing of the capture.
static void neighbour() {
  void* memory;
  if (cudaMalloc(&memory, 64)) {
    ++fake_disturbances;
  } else {
    --fake_mallocs;
    cudaFree(memory);
  }
  char bytes[2];
  fake_disturbances += cudaMemcpyAsync(bytes, bytes + 1, 1, 0, nullptr) != kNone;
}

int cudaStreamBeginCapture(void* stream, int mode) {
  {
    Lock lock(mutex);
    ++fake_captures;
    capturing[stream] = {{}, mode, std::this_thread::get_id(), !(streams[stream] & 1), false};
  }
  if (getenv("FAKE_CUDA_NEIGHBOUR")) std::thread(neighbour).join();
  return kNone;
}

int cudaStreamEndCapture(void* stream, void** graph) {
  Lock lock(mutex);
  Capture done = capturing[stream];
  capturing.erase(stream);
  *graph = done.broken ? nullptr : new Graph(done.graph);
  return done.broken ? kInvalidated : kNone;
}

int cudaGraphInstantiate(void** ready, Graph* graph, unsigned long long flags) {
  if (!graph) return kInvalid;
  *ready = new Graph(*graph);
  return kNone;
}

int cudaGraphLaunch(Graph* graph, void* stream) {
  Lock lock(mutex);
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
const char* cudaGetErrorString(int error) {
  if (error == kUnsupported) return "operation not permitted when stream is capturing";
  if (error == kInvalidated) return "operation failed due to a previous error during capture";
  if (error == kBusy) return "CUDA-capable device(s) is/are busy or unavailable";
  return error == kNoMemory ? "out of memory" : "an error of the fake runtime";
}
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
