// What the stand-ins for NVIDIA's driver and for CUDA's runtime know both. The driver's library holds it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <vector>

namespace fake {
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

enum Error { kNone, kInvalid = 1, kNoMemory = 2, kBusy = 46, kNotFound = 500, kFailed = 719, kCaptured = 906 };

extern std::map<char*, size_t> allocations;
extern std::map<void*, Graph> capturing;  // by stream
int run(const Captured& kept);
}  // namespace fake

extern "C" int fake_launches, fake_graphs;  // launched one by one; graphs launched
