"""Every template, in order of preference, and the choice among them."""

from __future__ import annotations

from tvm.target import Target
from tvm.target.codegen import target_has_features

from schedules.arm.products import (
    ATTENTION_SDOT,
    ATTENTION_USDOT,
    PRODUCT_SDOT,
    PRODUCT_USDOT,
    RECURRENCE_SDOT,
    RECURRENCE_USDOT,
)
from schedules.arm.sdot import CONV2D_SDOT, CONV2D_STEM_SDOT, DENSE_SDOT
from schedules.arm.table_tbl import TABLE_TBL
from schedules.arm.usdot import CONV2D_STEM_USDOT, CONV2D_USDOT, DENSE_USDOT
from schedules.arm.windows import DEPTHWISE_SDOT, DEPTHWISE_USDOT, GROUPED_SDOT, GROUPED_USDOT
from schedules.cpu import arithmetic, conv2d_open, pack_open, pool2d_open, unpack_open
from schedules.cpu.arithmetic import ARITHMETIC_CPU
from schedules.cpu.channel_extremes import CHANNEL_EXTREMES_CPU
from schedules.cpu.channel_means import CHANNEL_MEANS_CPU
from schedules.cpu.concat import CONCAT_CPU
from schedules.cpu.conv2d_any_group import CONV2D_ANY_GROUP, CONV2D_ANY_GROUP_F32
from schedules.cpu.conv2d_open import CONV2D_OPEN_F32
from schedules.cpu.depthwise import DEPTHWISE_F32, DEPTHWISE_PLAIN
from schedules.cpu.f32 import (
    CONV2D_F32,
    CONV2D_STEM_F32,
    DENSE_F32,
    PRODUCT_F32,
    RECURRENCE_F32,
)
from schedules.cpu.grouped import GROUPED_F32, GROUPED_PLAIN
from schedules.cpu.layout_flexible import (
    BINARY_CPU,
    BOUND_CPU,
    DEQUANTIZE_CPU,
    GELU_CPU,
    INTERPOLATE_CPU,
    MOVE_CPU,
    QUANTIZE_CPU,
    RESCALE_CPU,
    SIGMOID_CPU,
    TABLE_CPU,
)
from schedules.cpu.observe import OBSERVE_CPU
from schedules.cpu.pack_open import PACK_OPEN
from schedules.cpu.plain import (
    ATTENTION_PLAIN,
    CONV2D_PLAIN,
    CONV2D_STEM_PLAIN,
    DENSE_PLAIN,
    PRODUCT_PLAIN,
    RECURRENCE_PLAIN,
)
from schedules.cpu.pool2d import POOL2D_CPU
from schedules.cpu.pool2d_open import POOL2D_OPEN_F32
from schedules.cpu.rows import NORMALIZE_CPU, SOFTMAX_CPU
from schedules.cpu.sample2d import SAMPLE2D_CPU
from schedules.cpu.unpack_open import UNPACK_OPEN
from schedules.cuda.attention import ATTENTION_CUDA
from schedules.cuda.choice import ESTIMATES, fastest
from schedules.cuda.conv2d_any_group import CONV2D_ANY_GROUP_CUDA
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.dp4a.conv2d_f16 import CONV2D_F16_CUDA
from schedules.cuda.dp4a.conv2d_f32 import CONV2D_F32_CUDA
from schedules.cuda.dp4a.dense import DENSE_DP4A, DENSE_F16_CUDA, DENSE_F32_CUDA
from schedules.cuda.layout_flexible import (
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
from schedules.layout import NCHW16C, ROW
from schedules.spec import (
    Binary,
    Conv2d,
    Dequantize,
    Gelu,
    Move,
    Pool2d,
    Rescale,
    Sigmoid,
    Spec,
)
from schedules.template import (
    Layouts,
    Measured,
    ScheduleError,
    ScheduleTemplate,
    not_measured,
)
from schedules.x86.avx2 import CONV2D_AVX2, CONV2D_STEM_AVX2, DENSE_AVX2
from schedules.x86.avxvnni import CONV2D_AVXVNNI, CONV2D_STEM_AVXVNNI, DENSE_AVXVNNI
from schedules.x86.depthwise_avx2 import DEPTHWISE_AVX2
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
from schedules.x86.vnni import CONV2D_STEM_VNNI, CONV2D_VNNI, DENSE_VNNI
from schedules.x86.windows_avxvnni import DEPTHWISE_AVXVNNI, GROUPED_AVXVNNI
from schedules.x86.winograd import WINOGRAD_AVX2, WINOGRAD_AVXVNNI, WINOGRAD_VNNI

_ORDER = (
    DEPTHWISE_VNNI,
    GROUPED_VNNI,
    CONV2D_STEM_VNNI,
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
    WINOGRAD_AVX2,
    CONV2D_AVX2,
    DENSE_AVX2,
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
    DEPTHWISE_F32,
    GROUPED_F32,
    CONV2D_STEM_F32,
    CONV2D_F32,
    CONV2D_OPEN_F32,
    DENSE_F32,
    CONV2D_ANY_GROUP,
    CONV2D_ANY_GROUP_F32,
    POOL2D_CPU,
    INTERPOLATE_CPU,
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
    CONV2D_DP4A,
    DENSE_DP4A,
    CONV2D_F32_CUDA,
    DENSE_F32_CUDA,
    CONV2D_F16_CUDA,
    DENSE_F16_CUDA,
    CONV2D_ANY_GROUP_CUDA,
    CONV2D_MMA,
    DENSE_MMA,
    POOL2D_CUDA,
    INTERPOLATE_CUDA,
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
)

TEMPLATES: dict[str, ScheduleTemplate] = {template.name: template for template in _ORDER}
"""By name, in order of preference: the first of a kind that does not refuse is used, or, where the
time of several can be measured or estimated, the fastest of these."""


_ARITHMETIC = (RESCALE_CPU, BINARY_CPU, SIGMOID_CPU, GELU_CPU)


def select(spec: Spec, target: Target, measured: Measured = not_measured) -> ScheduleTemplate:
    """Return the preferred template for ``spec`` on ``target``.

    Parameters
    ----------
    measured
        ``(template, spec)`` -> seconds on the target, None where they are not known.

    Raises
    ------
    ScheduleError
        With the reason of each template, if all refuse.
    """
    able, reasons = _able(spec, target)
    if not able:
        raise ScheduleError(
            f"no template for {spec} on {target}: {'; '.join(reasons) or 'none exists'}"
        )
    known = comparable(spec, target)
    return (
        TEMPLATES[fastest([each.name for each in known], spec, target, measured)]
        if known
        else able[0]
    )


def of_any_size(
    template: ScheduleTemplate, spec: Spec, layouts: Layouts, target: Target
) -> tuple[ScheduleTemplate, Spec, Layouts]:
    """Return the kernel that computes ``spec`` for tensors of any size, with the same bits.

    It is compiled once for all layers of its kind, and may take longer to run. The kernel itself is
    returned where there is none. Constants are those that ``template`` packs.
    """
    found: tuple[ScheduleTemplate, Spec | None] = template, None
    if template in (CONV2D_F32, DEPTHWISE_F32) and isinstance(spec, Conv2d):
        found = CONV2D_OPEN_F32, conv2d_open.opened(spec, target)
    elif template is POOL2D_CPU and isinstance(spec, Pool2d):
        found = POOL2D_OPEN_F32, pool2d_open.opened(spec, layouts)
    elif template is MOVE_CPU and layouts.output == NCHW16C and isinstance(spec, Move):
        found = PACK_OPEN, pack_open.opened(spec, layouts)
    elif template in (MOVE_CPU, DEQUANTIZE_CPU) and isinstance(spec, Move | Dequantize):
        found = UNPACK_OPEN, unpack_open.opened(spec, layouts)
    elif template in _ARITHMETIC and isinstance(spec, Rescale | Binary | Sigmoid | Gelu):
        found = ARITHMETIC_CPU, arithmetic.opened(spec, layouts)
    general_template, general = found
    if general is None:
        return template, spec, layouts
    rows = Layouts(inputs=(ROW,) * len(general.tensors), output=ROW)  # its shapes are memory's
    return general_template, general, rows


def comparable(spec: Spec, target: Target) -> tuple[ScheduleTemplate, ...]:
    """Return the templates that compete by time for ``spec``; none where the order decides."""
    able, _ = _able(spec, target)
    if not able or able[0].name not in ESTIMATES:
        return ()
    return tuple(template for template in able if template.name in ESTIMATES)


def _able(spec: Spec, target: Target) -> tuple[list[ScheduleTemplate], list[str]]:
    """Return the templates that compute ``spec``, in order, and why the others do not."""
    reasons, able = [], []
    for template in TEMPLATES.values():
        if template.kind != spec.kind:
            continue
        reason = template.refuses(spec, target)
        if reason is None:
            able.append(template)
        else:
            reasons.append(f"{template.name}: {reason}")
    return able, reasons


def stores_unsigned(target: Target) -> bool:
    """Say whether the instructions of ``target`` multiply u8 by s8, so that s8 is kept as u8."""
    return target.kind.name == "llvm" and any(
        target_has_features(feature, target) for feature in ("avx512vnni", "avxvnni")
    )
