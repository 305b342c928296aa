"""What stands before generated CUDA C when it is compiled without CUDA's headers.

TVM's own preamble includes headers of a toolkit. Kernels of this package need none of them: only
the names of the sized types, dp4a of unsigned by signed bytes, which CUDA C lacks, conversions of
float16 and the constants that are not finite, which it has in headers alone.
"""

from __future__ import annotations

from schedules.cuda.toolchain.mma_preamble import MMA_FUNCTIONS, MMA_INSTRUCTIONS

PREAMBLE = """\
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define uint unsigned int
#define uchar unsigned char
#define ushort unsigned short
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000LL)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000LL)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
static __device__ __forceinline__ int __dp4a(unsigned int a, int b, int c) {
  int d;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
#endif
static __device__ __forceinline__ float half_as_float(unsigned short bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
static __device__ __forceinline__ float rounded_to_half(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return half_as_float(bits);
}
"""
_FIRST_KERNEL = 'extern "C" __global__'


def without_headers(source: str) -> str:
    """Return CUDA C that TVM generated with this preamble in place of TVM's."""
    start = source.find(_FIRST_KERNEL)
    return PREAMBLE + MMA_INSTRUCTIONS + MMA_FUNCTIONS + (source[start:] if start >= 0 else "")
