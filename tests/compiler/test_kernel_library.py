"""Networks of one context compile each kernel once, and give the integers that they gave apart."""

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from relay_int8.compiler import kernel_library
from relay_int8.compiler.build import Built, compile_module, virtual_machine
from relay_int8.compiler.kernel_library import share_library, shared_function, sharing_kernels
from relay_int8.graph.attributes import TEMPLATE
from schedules.targets import native_target
from tests.quantized_networks import QuantizedNetwork
from tests.small_networks import any_params, residual

TARGET = native_target()


@pytest.fixture(autouse=True, scope="module")
def few_modules() -> None:
    """Split kernels as the compiler does."""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Note the kernels of templates that each network has compiled."""
    noted: list[set[str]] = []
    inner = kernel_library._compiled

    def _noted(kernels: Any, *arguments: Any) -> Any:
        noted.append({gvar.name_hint for gvar, func in kernels.items() if TEMPLATE in func.attrs})
        return inner(kernels, *arguments)

    monkeypatch.setattr(kernel_library, "_compiled", _noted)
    return noted


def _run(built: Built) -> bytes:
    main = virtual_machine(built)["main"]
    x = np.random.default_rng(0).normal(size=(1, 3, 12, 11)).astype("float32")
    found = main(tvm.runtime.tensor(x))
    tensors = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
    return b"".join(tensor.numpy().tobytes() for tensor in tensors)


def test_second_network_compiles_nothing(compiled):
    mod = residual()
    alone = _run(compile_module(mod, TARGET))
    with sharing_kernels():
        first, second, third = (
            compile_module(mod, TARGET, transient=transient) for transient in (False, True, True)
        )
    assert compiled[0] == compiled[1]
    assert compiled[0]
    assert compiled[2] == {name for name in compiled[2] if "_open_" in name}
    assert not compiled[3]
    assert _run(first) == _run(second) == _run(third) == alone


def test_without_a_context_nothing_is_remembered(compiled):
    mod = residual()
    for _ in range(2):
        compile_module(mod, TARGET, transient=True)
    assert compiled[0] == compiled[1]
    assert compiled[0]


def test_a_function_is_made_once_for_its_key_in_a_context():
    made = []

    def make() -> tvm.tirx.PrimFunc:
        made.append(tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(len(made))))
        return made[-1]

    with sharing_kernels():
        found = [shared_function(make, *key) for key in (("a", "b"), ("a", "b"), ("a", "c"))]
    again = [shared_function(make, "a", "b") for _ in range(2)]
    assert [made.index(func) for func in found] == [0, 0, 1]
    assert len(made) == 4 and again == made[2:]


@pytest.mark.parametrize("transient", [False, True])
def test_any_number_of_modules_computes_the_same(monkeypatch, transient):
    found = {}
    for most in (1, 2, kernel_library.CHUNKS):
        monkeypatch.setattr(kernel_library, "FEW_CHUNKS" if transient else "CHUNKS", most)
        built = compile_module(residual(), TARGET, transient=transient)
        found[most] = _run(built), 1 + len(built.executable.mod.imports)
    assert len({outputs for outputs, _ in found.values()}) == 1
    counts = [modules for _, modules in found.values()]
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_an_exported_library_has_all_its_kernels(compiled, tmp_path):
    mod = residual()
    compile_module(mod, TARGET)
    with sharing_kernels():
        compile_module(mod, TARGET, transient=True)
        built = compile_module(mod, TARGET)
    built.export(tmp_path / "library.so")
    assert compiled[0] == compiled[2]
    library = tvm.runtime.load_module(str(tmp_path / "library.so"))
    main = tvm.relax.VirtualMachine(library, tvm.cpu())["main"]
    x = np.random.default_rng(0).normal(size=(1, 3, 12, 11)).astype("float32")
    found = main(tvm.runtime.tensor(x))
    assert found.numpy().tobytes() == _run(built)


def test_networks_run_the_kernels_of_a_linked_library(compiled, tmp_path):
    mod = QuantizedNetwork.make(residual(), any_params).mod
    with sharing_kernels():
        built = compile_module(mod, TARGET)
        in_memory = _run(compile_module(mod, TARGET, transient=True))
        built.export(tmp_path / "library.so")
        share_library(built.executable, tmp_path / "library.so")
        (tmp_path / "library.so").unlink()
        again = compile_module(mod, TARGET, transient=True)
        assert {module.kind for module in again.executable.mod.imports} == {"library", "llvm"}
        assert _run(again) == in_memory == _run(built)
    assert not compiled[2]


def test_equal_kernels_have_equal_names():
    names = [{call.function for call in compile_module(residual(), TARGET).calls} for _ in "ab"]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("x", "refusal"),
    [
        (np.zeros((1, 3, 12, 12), np.float32), "12 vs. 11"),
        (np.zeros((1, 3, 12, 11), np.float64), "float64"),
        (np.zeros((3, 12, 11), np.float32), "ndim 4 but get 3"),
        (np.zeros((1, 3, 12, 22), np.float32)[..., ::2], "compact"),
    ],
    ids=["shape", "type", "rank", "strides"],
)
def test_what_a_caller_gives_is_checked(x, refusal):
    main = virtual_machine(compile_module(residual(), TARGET))["main"]
    with pytest.raises((ValueError, RuntimeError), match=refusal):
        main(tvm_ffi.from_dlpack(x))


def test_kernels_between_others_do_not_check_their_arguments():
    executable = compile_module(residual(), TARGET).executable
    checked = ["expected to be" in module.inspect_source() for module in executable.mod.imports]
    assert sum(checked) == 1  # the one that reads x
