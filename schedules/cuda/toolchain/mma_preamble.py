"""Tensor cores and asynchronous copies as CUDA C calls them.

``MMA_INSTRUCTIONS`` wraps instructions that CUDA C has no name for; ``MMA_FUNCTIONS`` is plain C
over them, one text for every architecture: m16n8k32 and cp.async on sm_80 and newer; on sm_75 four
m8n8k16, whose fragments are the quarters of m16n8k32's, and copies through registers. Tests emulate
the instructions and run the functions as they are.

Source: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions", "ldmatrix" and "cp.async".
"""

from __future__ import annotations

MMA_INSTRUCTIONS = """\
#if __CUDA_ARCH__ >= 800
#define MMA_M16N8K32(name, type) \\
  static __device__ __forceinline__ void name( \\
      int& d0, int& d1, int& d2, int& d3, int a0, int a1, int a2, int a3, int b0, int b1) { \\
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." type ".s8.s32 " \\
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \\
                 : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) \\
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); \\
  }
MMA_M16N8K32(mma_m16n8k32_s8, "s8")
MMA_M16N8K32(mma_m16n8k32_u8, "u8")
static __device__ __forceinline__ void copy_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
static __device__ __forceinline__ void commit_async() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
static __device__ __forceinline__ void wait_async() {
  asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
#elif __CUDA_ARCH__ >= 750
#define MMA_M8N8K16(name, type) \\
  static __device__ __forceinline__ void name(int& d0, int& d1, int a, int b) { \\
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." type ".s8.s32 " \\
                 "{%0, %1}, {%2}, {%3}, {%0, %1};" : "+r"(d0), "+r"(d1) : "r"(a), "r"(b)); \\
  }
MMA_M8N8K16(mma_m8n8k16_s8, "s8")
MMA_M8N8K16(mma_m8n8k16_u8, "u8")
static __device__ __forceinline__ int4 load_global_16(const void* from) {
  return *(const int4*)from;
}
#endif
#if __CUDA_ARCH__ >= 750
static __device__ __forceinline__ void load_matrices(
    int& d0, int& d1, int& d2, int& d3, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3)
               : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
#endif
template <int bytes>
static __device__ __forceinline__ void* shared_bytes() {
  __shared__ __align__(16) char memory[bytes];
  return memory;
}
"""

_MULTIPLY = """\
static __device__ __forceinline__ void multiply_{x}(
    int* d, int a0, int a1, int a2, int a3, int b0, int b1) {{
#if __CUDA_ARCH__ >= 800
  mma_m16n8k32_{x}(d[0], d[1], d[8], d[9], a0, a1, a2, a3, b0, b1);
#else
  mma_m8n8k16_{x}(d[0], d[1], a0, b0);
  mma_m8n8k16_{x}(d[8], d[9], a1, b0);
  mma_m8n8k16_{x}(d[0], d[1], a2, b1);
  mma_m8n8k16_{x}(d[8], d[9], a3, b1);
#endif
}}
"""

MMA_FUNCTIONS = f"""\
#if __CUDA_ARCH__ >= 750
{_MULTIPLY.format(x="s8")}{_MULTIPLY.format(x="u8")}\
static __device__ __forceinline__ void begin_copy_16(
    int4* held, void* staged, int at, const void* from) {{
#if __CUDA_ARCH__ >= 800
  copy_async_16((char*)staged + at, from);
#else
  *held = load_global_16(from);
#endif
}}
static __device__ __forceinline__ const void* source_or_fill(
    bool inside, const void* base, long long offset, const void* fill) {{
  return inside ? (const char*)base + offset : fill;
}}
static __device__ __forceinline__ void end_copy_16(const int4* held, void* staged, int at) {{
#if __CUDA_ARCH__ < 800
  *(int4*)((char*)staged + at) = *held;
#endif
}}
static __device__ __forceinline__ void commit_copies() {{
#if __CUDA_ARCH__ >= 800
  commit_async();
#endif
}}
template <int pending>
static __device__ __forceinline__ void wait_copies() {{
#if __CUDA_ARCH__ >= 800
  wait_async<pending>();
#endif
}}
static __device__ __forceinline__ void read_matrices(int* to, const void* staged, int at) {{
  load_matrices(to[0], to[1], to[2], to[3], (const char*)staged + at);
}}
static __device__ __forceinline__ void read_16(int* to, const void* staged, int at) {{
  int4 words = *(const int4*)((const char*)staged + at);
  to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
}}
static __device__ __forceinline__ void write_4(void* staged, int at, int word) {{
  *(int*)((char*)staged + at) = word;
}}
static __device__ __forceinline__ int read_4(const void* staged, int at) {{
  return *(const int*)((const char*)staged + at);
}}
#endif
"""
