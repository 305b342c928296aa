// Stands in for NVIDIA's driver: says what the environment says is there.
//
//   FAKE_CUDA          what cuInit answers
//   FAKE_CUDA_DRIVER   the CUDA it serves, as 13000
//   FAKE_CUDA_DEVICES  of each GPU name:architecture:GiB:multiprocessors, with semicolons between; the last
//                      may be left out
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setting(const char* name) {
  const char* text = getenv(name);
  return text ? atoi(text) : 0;
}

static int multiprocessors = 8;  // of the GPU that was found last

// Find the text of GPU `number`; return how many there are.
static int devices(int number, char* name, int* architecture, int* gib) {
  const char* text = getenv("FAKE_CUDA_DEVICES");
  int count = 0;
  for (; text && *text; ++count) {
    if (count == number) sscanf(text, "%255[^:]:%d:%d:%d", name, architecture, gib, &multiprocessors);
    text = strchr(text, ';');
    text += text != 0;
  }
  return count;
}

int cuInit(unsigned flags) { return setting("FAKE_CUDA"); }

int cuDriverGetVersion(int* version) {
  *version = setting("FAKE_CUDA_DRIVER");
  return 0;
}

int cuDeviceGetCount(int* count) {
  char name[256];
  int architecture, gib;
  *count = devices(-1, name, &architecture, &gib);
  return 0;
}

int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  char found[256];
  int architecture, gib;
  devices(device, found, &architecture, &gib);
  snprintf(name, size, "%s", found);
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  char name[256];
  int architecture, gib;
  devices(device, name, &architecture, &gib);
  *bytes = (size_t)gib << 30;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  char name[256];
  int architecture, gib;
  multiprocessors = 8;
  devices(device, name, &architecture, &gib);
  if (attribute == 16) {
    *value = multiprocessors;
    return 0;
  }
  if (attribute != 75 && attribute != 76) return 1;  // the compute capability, or nothing known
  *value = attribute == 75 ? architecture / 10 : architecture % 10;
  return 0;
}
