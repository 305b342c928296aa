// What the benchmark asks of a driver beyond what running a network does: events, graphs and memory
// by the driver's own functions, and kernels that measure peaks. For libcuda.so.1 of tests/cuda.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern "C" {
int cudaEventCreate(void**);
int cudaEventRecord(void*, void*);
int cudaEventElapsedTime(float*, void*, void*);
int cudaStreamCreate(void**);
int cudaStreamBeginCapture(void*, int);
int cudaStreamEndCapture(void*, void**);
int cudaGraphInstantiate(void**, void*, unsigned long long);
int cudaGraphLaunch(void*, void*);
int cudaGraphDestroy(void*);
int cudaMalloc(void**, size_t);
int cudaFree(void*);
int cuLaunchKernelEx(const void*, void*, void**, void**);
int known_attribute(int*, int, int);

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 13: *value = 1000000; return 0;  // kHz
    case 16: *value = 2; return 0;        // multiprocessors
    case 36: *value = 1000000; return 0;
    case 37: *value = 64; return 0;
    case 38: *value = 1 << 20; return 0;
  }
  return known_attribute(value, attribute, device);
}

int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)1, 0; }
int cuCtxSetCurrent(void* context) { return 0; }
int cuCtxSynchronize() { return 0; }
int cuStreamCreate(void** stream, unsigned flags) { return cudaStreamCreate(stream); }
int cuEventCreate(void** event, unsigned flags) { return cudaEventCreate(event); }
int cuEventRecord(void* event, void* stream) { return cudaEventRecord(event, stream); }
int cuEventSynchronize(void* event) { return 0; }
int cuEventElapsedTime(float* ms, void* start, void* end) {
  return cudaEventElapsedTime(ms, start, end);
}
int cuStreamBeginCapture_v2(void* stream, int mode) { return cudaStreamBeginCapture(stream, mode); }
int cuStreamEndCapture(void* stream, void** graph) { return cudaStreamEndCapture(stream, graph); }
int cuGraphInstantiateWithFlags(void** ready, void* graph, unsigned long long flags) {
  return cudaGraphInstantiate(ready, graph, flags);
}
int cuGraphLaunch(void* graph, void* stream) { return cudaGraphLaunch(graph, stream); }
int cuGraphDestroy(void* graph) { return cudaGraphDestroy(graph); }
int cuMemAlloc_v2(void** address, size_t bytes) { return cudaMalloc(address, bytes); }
int cuMemFree_v2(void* address) { return cudaFree(address); }
int cuMemsetD8_v2(void* address, unsigned char value, size_t bytes) {
  return memset(address, value, bytes), 0;
}
int fake_flushes;
int cuMemsetD8Async(void* address, unsigned char value, size_t bytes, void* stream) {
  return ++fake_flushes, memset(address, value, bytes), 0;
}
int cuMemcpyDtoDAsync_v2(void* to, void* from, size_t bytes, void*) {
  return memcpy(to, from, bytes), 0;
}
int cuMemcpyDtoH_v2(void* to, void* from, size_t bytes) { return memcpy(to, from, bytes), 0; }

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  struct {
    unsigned size[6], shared;
    void* stream;
  } config = {{gx, gy, gz, bx, by, bz}, shared, stream};
  return cuLaunchKernelEx(&config, function, arguments, extra);
}

int count_nothing = 1, count_dp4a_peak = 3, count_mma_peak = 3;
int launch_nothing(const int*, void**) { return 0; }
int launch_dp4a_peak(const int* size, void** arguments) {
  for (int block = 0; block < size[0]; ++block) (*(int64_t**)arguments[1])[block] = 1000;
  return 0;
}
int launch_mma_peak(const int* size, void** arguments) { return launch_dp4a_peak(size, arguments); }
}
