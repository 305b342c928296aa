// Runs a compiled network once: run_network LIBRARY INPUT OUTPUT.
//
// INPUT and OUTPUT are files of tensors: the line "<type> <dims...>" (type u8, s8, s32, s64 or f32),
// then the bytes. OUTPUT gets the tensors that the network returns, in order.
#include <dlfcn.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>

#include <fstream>
#include <iostream>
#include <map>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

const std::map<std::string, DLDataType> kTypes = {{"u8", {kDLUInt, 8, 1}},
                                                  {"s8", {kDLInt, 8, 1}},
                                                  {"s32", {kDLInt, 32, 1}},
                                                  {"s64", {kDLInt, 64, 1}},
                                                  {"f32", {kDLFloat, 32, 1}}};

struct HostMemory {
  static constexpr std::align_val_t kAlignment{64};  // what TVM's kernels assume
  void AllocData(DLTensor* tensor) {
    tensor->data = operator new(ffi::GetDataSize(*tensor), kAlignment);
  }
  void FreeData(DLTensor* tensor) { operator delete(tensor->data, kAlignment); }
};

bool ReadTensor(std::istream& file, std::vector<ffi::Tensor>* tensors) {
  std::string line, type;
  if (!std::getline(file, line)) return false;
  std::istringstream words(line);
  words >> type;
  std::vector<int64_t> dims;
  for (int64_t dim; words >> dim;) dims.push_back(dim);
  ffi::Tensor tensor = ffi::Tensor::FromNDAlloc(HostMemory(), ffi::Shape(dims), kTypes.at(type),
                                                DLDevice{kDLCPU, 0});
  const auto bytes = static_cast<std::streamsize>(ffi::GetDataSize(tensor));
  if (!file.read(static_cast<char*>(tensor.data_ptr()), bytes)) {
    throw std::runtime_error("the input file ends inside a tensor");
  }
  tensors->push_back(tensor);
  return true;
}

void WriteTensor(std::ostream& file, const ffi::Tensor& tensor) {
  for (const auto& [name, type] : kTypes) {
    if (type == tensor.dtype()) file << name;
  }
  for (int64_t dim : tensor.shape()) file << ' ' << dim;
  file << '\n';
  file.write(static_cast<const char*>(tensor.data_ptr()), ffi::GetDataSize(tensor));
}

std::vector<ffi::Tensor> RunNetwork(const std::string& library,
                                    const std::vector<ffi::Tensor>& inputs) {
  ffi::Module module = ffi::Module::LoadFromFile(library);
  ffi::Module vm = module->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
  const int kPooledAllocator = 2;
  vm->GetFunction("vm_initialization").value()(static_cast<int>(kDLCPU), 0, kPooledAllocator);
  // By a team of threads, as relay_int8 runs it, where the library has the code.
  ffi::Function run = vm->GetFunction("main").value();
  std::vector<ffi::AnyView> arguments(inputs.begin(), inputs.end());
  const ffi::Function main_function = run;
  if (auto team = module->GetFunction("run_in_team", true)) {
    if (!module->GetFunction("install_team", true).value()().cast<bool>()) {
      throw std::runtime_error("the team's code cannot be installed");
    }
    run = *team;
    arguments.insert(arguments.begin(), main_function);
  }
  ffi::Any result;
  run.CallPacked(arguments.data(), arguments.size(), &result);
  if (auto tensor = result.as<ffi::Tensor>()) return {*tensor};
  std::vector<ffi::Tensor> outputs;
  for (const ffi::Any& item : result.cast<ffi::Array<ffi::Any>>()) {
    outputs.push_back(item.cast<ffi::Tensor>());
  }
  return outputs;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: run_network LIBRARY INPUT OUTPUT\n";
    return 2;
  }
  if (!dlopen("libtvm_runtime.so", RTLD_NOW | RTLD_GLOBAL)) {
    std::cerr << dlerror() << '\n';
    return 1;
  }
  try {
    std::ifstream input(argv[2], std::ios::binary);
    std::vector<ffi::Tensor> tensors;
    while (ReadTensor(input, &tensors)) continue;
    std::ofstream output(argv[3], std::ios::binary);
    for (const ffi::Tensor& tensor : RunNetwork(argv[1], tensors)) WriteTensor(output, tensor);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
