// What one multiprocessor multiplies at most: nothing but dp4a, nothing but matrix instructions.
// One block of 1024 threads a multiprocessor; each writes the cycles that its loop took.
// And what a kernel costs that does nothing.

extern "C" __global__ void nothing(int* sums) {}

extern "C" __global__ void __launch_bounds__(1024)
    dp4a_peak(int* sums, long long* cycles, int rounds) {
  int a = threadIdx.x * 0x01030507, b = blockIdx.x * 0x02010301 + 0x01010101;
  int c[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) c[i] = a + i;
  long long start = clock64();
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < 16; ++i) c[i] = __dp4a(a, b, c[i]);
  }
  long long end = clock64();
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) sum += c[i];
  sums[blockIdx.x * 1024 + threadIdx.x] = sum;
  if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;
}

extern "C" __global__ void __launch_bounds__(1024)
    mma_peak(int* sums, long long* cycles, int rounds) {
  int sum = 0;
  long long start = 0, end = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  int a[4], b[2], c[8][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = threadIdx.x * 0x01030507 + i;
  b[0] = blockIdx.x + 0x01010101;
  b[1] = blockIdx.x + 0x02010301;
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) c[i][j] = i + j;
  start = clock64();
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile(
          "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+r"(c[i][0]), "+r"(c[i][1]), "+r"(c[i][2]), "+r"(c[i][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  end = clock64();
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += c[i][j];
#endif
  sums[blockIdx.x * 1024 + threadIdx.x] = sum;
  if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;
}
