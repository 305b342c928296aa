"""Every template, in order of preference."""

from __future__ import annotations

from schedules.arm.products import (
    ATTENTION_SDOT,
    ATTENTION_USDOT,
    PRODUCT_SDOT,
    PRODUCT_USDOT,
    RECURRENCE_SDOT,
    RECURRENCE_USDOT,
)
from schedules.arm.sdot import CONV2D_MERGED_SDOT, CONV2D_SDOT, CONV2D_STEM_SDOT, DENSE_SDOT
from schedules.arm.table_tbl import TABLE_TBL
from schedules.arm.usdot import CONV2D_MERGED_USDOT, CONV2D_STEM_USDOT, CONV2D_USDOT, DENSE_USDOT
from schedules.arm.windows import DEPTHWISE_SDOT, DEPTHWISE_USDOT, GROUPED_SDOT, GROUPED_USDOT
from schedules.cpu.bilinear import BILINEAR_CPU
from schedules.cpu.contractions.conv2d_any_group import CONV2D_ANY_GROUP, CONV2D_ANY_GROUP_F32
from schedules.cpu.f32 import (
    CONV2D_F32,
    CONV2D_STEM_F32,
    DENSE_F32,
    PRODUCT_F32,
    RECURRENCE_F32,
)
from schedules.cpu.layout_flexible import (
    BINARY_CPU,
    BOUND_CPU,
    DEQUANTIZE_CPU,
    GELU_CPU,
    INTERPOLATE_CPU,
    QUANTIZE_CPU,
    RESCALE_CPU,
    SIGMOID_CPU,
    TABLE_CPU,
)
from schedules.cpu.moves.concat import CONCAT_CPU
from schedules.cpu.moves.move import MOVE_CPU
from schedules.cpu.norms.columns import SOFTMAX_COLUMNS_CPU
from schedules.cpu.norms.rows import NORMALIZE_CPU, SOFTMAX_CPU
from schedules.cpu.open_size.arithmetic import ARITHMETIC_CPU
from schedules.cpu.open_size.channel_extremes import CHANNEL_EXTREMES_CPU
from schedules.cpu.open_size.channel_means import CHANNEL_MEANS_CPU
from schedules.cpu.open_size.conv2d_open import CONV2D_OPEN_F32
from schedules.cpu.open_size.observe import OBSERVE_CPU
from schedules.cpu.open_size.pack_open import PACK_OPEN
from schedules.cpu.open_size.pool2d_open import POOL2D_OPEN_F32
from schedules.cpu.open_size.unpack_open import UNPACK_OPEN
from schedules.cpu.plain import (
    ATTENTION_PLAIN,
    CONV2D_MERGED_PLAIN,
    CONV2D_MERGED_PLAIN_WIDE,
    CONV2D_PLAIN,
    CONV2D_PLAIN_WIDE,
    CONV2D_STEM_PLAIN,
    DENSE_PLAIN,
    DENSE_PLAIN_WIDE,
    PRODUCT_PLAIN,
    RECURRENCE_PLAIN,
)
from schedules.cpu.pool2d import POOL2D_CPU
from schedules.cpu.sample2d import SAMPLE2D_CPU
from schedules.cpu.suppression import SUPPRESSION_CPU
from schedules.cpu.windows.depthwise import DEPTHWISE_F32, DEPTHWISE_PLAIN, DEPTHWISE_PLAIN_WIDE
from schedules.cpu.windows.grouped import GROUPED_F32, GROUPED_PLAIN
from schedules.cuda.attention import ATTENTION_CUDA
from schedules.cuda.conv2d_any_group import CONV2D_ANY_GROUP_CUDA
from schedules.cuda.dense_wide import DENSE_WIDE_CUDA
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.dp4a.conv2d_f16 import CONV2D_F16_CUDA
from schedules.cuda.dp4a.conv2d_f32 import CONV2D_F32_CUDA
from schedules.cuda.dp4a.dense import DENSE_DP4A, DENSE_F16_CUDA, DENSE_F32_CUDA
from schedules.cuda.layout_flexible import (
    BILINEAR_CUDA,
    BINARY_CUDA,
    BOUND_CUDA,
    CONCAT_CUDA,
    DEQUANTIZE_CUDA,
    GELU_CUDA,
    INTERPOLATE_CUDA,
    MOVE_CUDA,
    POOL2D_CUDA,
    QUANTIZE_CUDA,
    RESCALE_CUDA,
    SIGMOID_CUDA,
    TABLE_CUDA,
)
from schedules.cuda.mma.conv2d_mma import CONV2D_MMA
from schedules.cuda.mma.dense_mma import DENSE_MMA
from schedules.cuda.product import PRODUCT_CUDA
from schedules.cuda.recurrence import RECURRENCE_CUDA
from schedules.cuda.rows import NORMALIZE_CUDA, SOFTMAX_CUDA
from schedules.cuda.sample2d import SAMPLE2D_CUDA
from schedules.cuda.suppression import SUPPRESSION_CUDA
from schedules.template import ScheduleTemplate
from schedules.x86.avx2 import (
    CONV2D_AVX2,
    CONV2D_AVX2_WIDE,
    CONV2D_MERGED_AVX2,
    CONV2D_MERGED_AVX2_WIDE,
    CONV2D_STEM_AVX2,
    CONV2D_STEM_AVX2_WIDE,
    DENSE_AVX2,
    DENSE_AVX2_WIDE,
)
from schedules.x86.avxvnni import (
    CONV2D_AVXVNNI,
    CONV2D_MERGED_AVXVNNI,
    CONV2D_STEM_AVXVNNI,
    DENSE_AVXVNNI,
)
from schedules.x86.conv2d_narrow import CONV2D_NARROW_AVX2, CONV2D_NARROW_VNNI
from schedules.x86.depthwise_avx2 import DEPTHWISE_AVX2, DEPTHWISE_AVX2_WIDE
from schedules.x86.depthwise_vnni import DEPTHWISE_VNNI
from schedules.x86.grouped_avx2 import GROUPED_AVX2
from schedules.x86.grouped_vnni import GROUPED_VNNI
from schedules.x86.products import (
    ATTENTION_AVX2,
    ATTENTION_AVXVNNI,
    ATTENTION_VNNI,
    PRODUCT_AVX2,
    PRODUCT_AVXVNNI,
    PRODUCT_VNNI,
    RECURRENCE_AVX2,
    RECURRENCE_AVXVNNI,
    RECURRENCE_VNNI,
)
from schedules.x86.table_pshufb import TABLE_AVX2, TABLE_AVX512
from schedules.x86.table_vbmi import TABLE_VBMI
from schedules.x86.vnni import CONV2D_MERGED_VNNI, CONV2D_STEM_VNNI, CONV2D_VNNI, DENSE_VNNI
from schedules.x86.windows_avxvnni import DEPTHWISE_AVXVNNI, GROUPED_AVXVNNI
from schedules.x86.winograd import WINOGRAD_AVX2, WINOGRAD_AVXVNNI, WINOGRAD_VNNI

_ORDER = (
    DEPTHWISE_VNNI,
    GROUPED_VNNI,
    CONV2D_STEM_VNNI,
    CONV2D_NARROW_VNNI,
    WINOGRAD_VNNI,
    CONV2D_VNNI,
    DENSE_VNNI,
    DEPTHWISE_AVXVNNI,
    GROUPED_AVXVNNI,
    CONV2D_STEM_AVXVNNI,
    WINOGRAD_AVXVNNI,
    CONV2D_AVXVNNI,
    DENSE_AVXVNNI,
    DEPTHWISE_AVX2,
    GROUPED_AVX2,
    CONV2D_STEM_AVX2,
    CONV2D_NARROW_AVX2,
    WINOGRAD_AVX2,
    CONV2D_AVX2,
    DENSE_AVX2,
    DEPTHWISE_AVX2_WIDE,
    CONV2D_STEM_AVX2_WIDE,
    CONV2D_AVX2_WIDE,
    DENSE_AVX2_WIDE,
    DEPTHWISE_USDOT,
    GROUPED_USDOT,
    CONV2D_STEM_USDOT,
    CONV2D_USDOT,
    DENSE_USDOT,
    DEPTHWISE_SDOT,
    GROUPED_SDOT,
    CONV2D_STEM_SDOT,
    CONV2D_SDOT,
    DENSE_SDOT,
    DEPTHWISE_PLAIN,
    GROUPED_PLAIN,
    CONV2D_STEM_PLAIN,
    CONV2D_PLAIN,
    DENSE_PLAIN,
    DEPTHWISE_PLAIN_WIDE,
    CONV2D_PLAIN_WIDE,
    DENSE_PLAIN_WIDE,
    DEPTHWISE_F32,
    GROUPED_F32,
    CONV2D_STEM_F32,
    CONV2D_F32,
    CONV2D_OPEN_F32,
    DENSE_F32,
    CONV2D_MERGED_VNNI,
    CONV2D_MERGED_AVXVNNI,
    CONV2D_MERGED_AVX2,
    CONV2D_MERGED_AVX2_WIDE,
    CONV2D_MERGED_USDOT,
    CONV2D_MERGED_SDOT,
    CONV2D_MERGED_PLAIN,
    CONV2D_MERGED_PLAIN_WIDE,
    CONV2D_ANY_GROUP,
    CONV2D_ANY_GROUP_F32,
    POOL2D_CPU,
    INTERPOLATE_CPU,
    BILINEAR_CPU,
    BINARY_CPU,
    BOUND_CPU,
    RESCALE_CPU,
    TABLE_VBMI,
    TABLE_AVX512,
    TABLE_AVX2,
    TABLE_TBL,
    TABLE_CPU,
    QUANTIZE_CPU,
    DEQUANTIZE_CPU,
    CONCAT_CPU,
    MOVE_CPU,
    UNPACK_OPEN,
    PACK_OPEN,
    POOL2D_OPEN_F32,
    ARITHMETIC_CPU,
    OBSERVE_CPU,
    CHANNEL_MEANS_CPU,
    CHANNEL_EXTREMES_CPU,
    SAMPLE2D_CPU,
    SIGMOID_CPU,
    GELU_CPU,
    PRODUCT_VNNI,
    PRODUCT_AVXVNNI,
    PRODUCT_AVX2,
    PRODUCT_USDOT,
    PRODUCT_SDOT,
    PRODUCT_PLAIN,
    PRODUCT_F32,
    ATTENTION_VNNI,
    ATTENTION_AVXVNNI,
    ATTENTION_AVX2,
    ATTENTION_USDOT,
    ATTENTION_SDOT,
    ATTENTION_PLAIN,
    RECURRENCE_VNNI,
    RECURRENCE_AVXVNNI,
    RECURRENCE_AVX2,
    RECURRENCE_USDOT,
    RECURRENCE_SDOT,
    RECURRENCE_PLAIN,
    RECURRENCE_F32,
    NORMALIZE_CPU,
    SOFTMAX_CPU,
    SOFTMAX_COLUMNS_CPU,
    SUPPRESSION_CPU,
    CONV2D_DP4A,
    DENSE_DP4A,
    CONV2D_F32_CUDA,
    DENSE_F32_CUDA,
    CONV2D_F16_CUDA,
    DENSE_F16_CUDA,
    CONV2D_ANY_GROUP_CUDA,
    DENSE_WIDE_CUDA,
    CONV2D_MMA,
    DENSE_MMA,
    POOL2D_CUDA,
    INTERPOLATE_CUDA,
    BILINEAR_CUDA,
    BINARY_CUDA,
    BOUND_CUDA,
    RESCALE_CUDA,
    TABLE_CUDA,
    QUANTIZE_CUDA,
    DEQUANTIZE_CUDA,
    CONCAT_CUDA,
    MOVE_CUDA,
    SAMPLE2D_CUDA,
    SIGMOID_CUDA,
    GELU_CUDA,
    PRODUCT_CUDA,
    ATTENTION_CUDA,
    RECURRENCE_CUDA,
    NORMALIZE_CUDA,
    SOFTMAX_CUDA,
    SUPPRESSION_CUDA,
)

TEMPLATES: dict[str, ScheduleTemplate] = {template.name: template for template in _ORDER}
"""By name, in order of preference (``schedules.selection`` chooses)."""
