"""The compiler on one page: every pass, in order, in phases."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.ir.transform import Pass
from tvm.target import Target

from relay_int8.compiler.extremes import EXTREMES
from relay_int8.compiler.passes.lower.alter_layout import AlterLayout
from relay_int8.compiler.passes.lower.check_kernels import CheckKernels
from relay_int8.compiler.passes.lower.check_launches import CheckLaunches
from relay_int8.compiler.passes.lower.compare_booleans import CompareBooleans
from relay_int8.compiler.passes.lower.fuse_islands import FuseIslands
from relay_int8.compiler.passes.lower.guard_division import GuardDivision
from relay_int8.compiler.passes.lower.guard_indices import GuardIndices
from relay_int8.compiler.passes.lower.halve_floats import HalveFloats
from relay_int8.compiler.passes.lower.inline_islands import InlineIslands
from relay_int8.compiler.passes.lower.join_quantize import JoinQuantize
from relay_int8.compiler.passes.lower.lower_arithmetic import LowerArithmetic
from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.lower.multiply_powers import MultiplyPowers
from relay_int8.compiler.passes.lower.place_concats import PlaceConcats
from relay_int8.compiler.passes.lower.realize import Realize
from relay_int8.compiler.passes.lower.schedule_islands import ScheduleIslands
from relay_int8.compiler.passes.lower.schedule_kernels import ScheduleKernels
from relay_int8.compiler.passes.lower.shift_signs import ShiftSigns
from relay_int8.compiler.passes.lower.spell_arguments import SpellArguments
from relay_int8.compiler.passes.lower.split_groups import SplitGroups
from relay_int8.compiler.passes.lower.thread_islands import ThreadIslands
from relay_int8.compiler.passes.lower.turn_norms import TurnNorms
from relay_int8.compiler.passes.lower.unmark_sequences import UnmarkSequences
from relay_int8.compiler.passes.lower.vectorize_islands import VectorizeIslands
from relay_int8.compiler.passes.lower.write_series import WriteSeries
from relay_int8.compiler.passes.normalize.canonicalize_activation import CanonicalizeActivation
from relay_int8.compiler.passes.normalize.canonicalize_channels import CanonicalizeChannels
from relay_int8.compiler.passes.normalize.canonicalize_guard import CanonicalizeGuard
from relay_int8.compiler.passes.normalize.canonicalize_norm import CanonicalizeNorm
from relay_int8.compiler.passes.normalize.canonicalize_pool import CanonicalizePool
from relay_int8.compiler.passes.normalize.canonicalize_product import CanonicalizeProduct
from relay_int8.compiler.passes.normalize.canonicalize_qdq import CanonicalizeQdq
from relay_int8.compiler.passes.normalize.canonicalize_repeat import CanonicalizeRepeat
from relay_int8.compiler.passes.normalize.canonicalize_reshape import CanonicalizeReshape
from relay_int8.compiler.passes.normalize.canonicalize_sequence import CanonicalizeSequence
from relay_int8.compiler.passes.normalize.canonicalize_tokens import CanonicalizeTokens
from relay_int8.compiler.passes.normalize.canonicalize_video import CanonicalizeVideo
from relay_int8.compiler.passes.normalize.drop_expand import DropExpand
from relay_int8.compiler.passes.normalize.fold_affine import FoldAffine
from relay_int8.compiler.passes.normalize.fold_constants import FoldConstants
from relay_int8.compiler.passes.normalize.fold_pad import FoldPad
from relay_int8.compiler.passes.normalize.fold_samples import FoldSamples
from relay_int8.compiler.passes.normalize.fold_shift import FoldShift
from relay_int8.compiler.passes.normalize.join_dense import JoinDense
from relay_int8.compiler.passes.normalize.join_masks import JoinMasks
from relay_int8.compiler.passes.normalize.join_response import JoinResponse
from relay_int8.compiler.passes.normalize.join_sums import JoinSums
from relay_int8.compiler.passes.normalize.lower_batch_norm import LowerBatchNorm
from relay_int8.compiler.passes.normalize.lower_transposed_conv import LowerTransposedConv
from relay_int8.compiler.passes.normalize.merge_branches import MergeBranches
from relay_int8.compiler.passes.normalize.move_affine import MoveAffine
from relay_int8.compiler.passes.normalize.move_bias import MoveBias
from relay_int8.compiler.passes.normalize.narrow_rows import NarrowRows
from relay_int8.compiler.passes.normalize.pad_concats import PadConcats
from relay_int8.compiler.passes.normalize.quantize_constants import QuantizeConstants
from relay_int8.compiler.passes.normalize.read_parts import ReadParts
from relay_int8.compiler.passes.normalize.remove_identity import RemoveIdentity
from relay_int8.compiler.passes.normalize.replace_split import ReplaceSplit
from relay_int8.compiler.passes.normalize.separate_rows import SeparateRows
from relay_int8.compiler.passes.normalize.split_sums import SplitSums
from relay_int8.compiler.passes.normalize.transpose_quantized import TransposeQuantized
from relay_int8.compiler.passes.normalize.unfold_computed_kernels import UnfoldComputedKernels
from relay_int8.compiler.tuned_schedules import TunedSchedules
from relay_int8.graph.declined import Declined, collecting_declined
from schedules.targets import stores_unsigned
from schedules.template import not_measured

CUDA_GRAPHS = "relax.backend.use_cuda_graph"


def normalize_passes() -> list[Pass]:
    """Phase 1, float graph: the canonical form that annotate reads."""
    return [
        CanonicalizeGuard(),
        ReplaceSplit(),
        ReadParts(),
        FoldConstants(),
        QuantizeConstants(),
        FoldSamples(),
        TransposeQuantized(),
        CanonicalizeNorm(),
        CanonicalizeChannels(),
        CanonicalizeSequence(),
        LowerTransposedConv(axes=3),
        CanonicalizeVideo(),
        CanonicalizeProduct(),
        CanonicalizeQdq(),
        FoldConstants(),  # of the reals that integers of a file stand for
        UnfoldComputedKernels(),
        CanonicalizeRepeat(),
        RemoveIdentity(),
        PadConcats(),
        CanonicalizePool(),
        CanonicalizeReshape(),
        SplitSums(),
        CanonicalizeTokens(),
        JoinResponse(),
        FoldShift(),
        MoveBias(),
        SeparateRows(),
        JoinDense(),
        DropExpand(),
        CanonicalizeActivation(),
        MoveAffine(),
        FoldPad(),
        MergeBranches(),
        FoldAffine(),
        JoinSums(),
        JoinMasks(),
        LowerBatchNorm(),
        LowerTransposedConv(),
        NarrowRows(),
    ]


def kernel_passes(target: Target, float16: bool = False, *, transient: bool = False) -> list[Pass]:
    """Phase 3, graph: operators become calls of specs; what has no spec stays Relax.

    With ``float16`` products of floats are of float16, where ``target`` has such kernels. In a
    ``transient`` network arithmetic of floats has kernels that serve tensors of any size, on CPUs.
    """
    on_cpu = target.kind.name == "llvm"
    return [
        Realize(),
        LowerFloat(),
        JoinQuantize(),
        *([TurnNorms()] if on_cpu else []),
        *([LowerArithmetic()] if transient and on_cpu else []),
        *([HalveFloats(target)] if float16 else []),
        *([ShiftSigns()] if stores_unsigned(target) else []),
        *([SplitGroups(target)] if on_cpu else []),
    ]


def island_passes() -> list[Pass]:
    """Phase 4, float islands: TVM's own kernels for what has no spec."""
    return [
        GuardIndices(),
        GuardDivision(),
        MultiplyPowers(),
        CompareBooleans(),
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(EXTREMES),
        relax.transform.AnnotateTIROpPattern(),
        FuseIslands(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]


def schedule_passes(
    target: Target, records: TunedSchedules | None = None, *, transient: bool = False
) -> list[Pass]:
    """Phase 5, kernels: specs become scheduled PrimFuncs in packed layouts."""
    measured = records.seconds if records else not_measured
    on_gpu = target.kind.name == "cuda"
    return [
        AlterLayout(target, measured, transient=transient),
        ScheduleKernels(target, records),
        *(
            [ThreadIslands(), SpellArguments()]
            if on_gpu
            else [
                UnmarkSequences(),
                InlineIslands(),
                WriteSeries(),
                ScheduleIslands(),
                VectorizeIslands(),
            ]
        ),
        CheckKernels(),
        *([CheckLaunches()] if on_gpu else []),
    ]


def virtual_machine_passes(cuda_graphs: bool = False) -> list[Pass]:
    """Phase 6: memory is planned, calls become instructions of the Relax virtual machine.

    With ``cuda_graphs`` what runs in planned memory becomes functions that are launched as one.
    """
    return [
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        PlaceConcats(),
        relax.transform.StaticPlanBlockMemory(),
        *([relax.transform.RewriteCUDAGraph()] if cuda_graphs else []),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]


def lower(
    target: Target,
    records: TunedSchedules | None = None,
    float16: bool = False,
    *,
    transient: bool = False,
) -> Pass:
    """Return phases 3 to 5: from a QDQ or float module to scheduled kernels.

    A ``transient`` network runs so few times that compiling it takes longer: it has kernels that
    serve tensors of any size where they give the same bits.
    """
    passes = [
        *kernel_passes(target, float16, transient=transient),
        *island_passes(),
        *schedule_passes(target, records, transient=transient),
    ]
    return tvm.transform.Sequential(passes, name="lower")


def finalize(cuda_graphs: bool = False) -> Pass:
    """Return phase 6; TVM captures graphs only where its option ``CUDA_GRAPHS`` says so too."""
    return tvm.transform.Sequential(virtual_machine_passes(cuda_graphs), name="finalize")


def normalized(mod: tvm.IRModule) -> tuple[tvm.IRModule, tuple[Declined, ...]]:
    """Return the canonical form of a module, and what its rewrites declined, in order."""
    with collecting_declined() as declined:
        canonical = normalize()(mod)
    return canonical, tuple(declined)


def normalize() -> Pass:
    """Return phase 1; normalizing twice changes nothing more."""
    return tvm.transform.Sequential(normalize_passes(), name="normalize")
