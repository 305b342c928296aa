"""The machine code of a library, by NVIDIA's disassembler, and what is said where it is not there."""

import importlib.util
import zipfile
from types import SimpleNamespace

import pytest

from benchmarks import inspect_sass
from schedules.cuda.toolchain import sass
from schedules.cuda.toolchain.fat_binary import MAGIC, bundle, compile_parts
from schedules.cuda.toolchain.sass import KernelCode, fat_binaries_in

PREFIX = 'extern "C" __global__ void __launch_bounds__(64) '
DP4A = PREFIX + "conv2d_dp4a_3_kernel(int* x) { x[threadIdx.x] = __dp4a(x[0], x[1], x[2]); }"
PLAIN = PREFIX + "dense_dp4a_1_kernel(int* x) { x[threadIdx.x] = x[0] * x[1]; }"


@pytest.fixture(scope="module")
def tool():
    for package in ("nvidia.cuda_nvrtc", "nvidia.cu13"):
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"needs {package}, of the extras cuda and sass")


def library(tmp_path, *sources, architectures=("sm_80", "sm_90")):
    """Return a file that holds fat binaries among other bytes, as a library does."""
    path = tmp_path / "library.so"
    binaries = (bundle(compile_parts(source, architectures)) for source in sources)
    path.write_bytes(b"\x7fELF" + b"".join(b"data" + binary for binary in binaries) + b"end")
    return path


def test_instructions_are_counted_by_kernel(tool, tmp_path, capsys):
    path = library(tmp_path, DP4A, PLAIN.replace("dense_dp4a_1", "pool2d_cuda_1"))
    listing = tmp_path / "listing.txt"
    assert inspect_sass.main([str(path), "--text", str(listing)]) == 0
    out = capsys.readouterr().out
    assert out.index("sm_80") < out.index("sm_90")
    rows = [line.split() for line in out.splitlines() if "_kernel" in line]
    assert [(row[0], row[3], row[4], row[5]) for row in rows] == [
        ("conv2d_dp4a_3_kernel", "1", "0", "0"),
        ("pool2d_cuda_1_kernel", "0", "0", "0"),
    ] * 2
    assert "IDP.4A.S8.S8" in listing.read_text()


def test_a_product_without_dp4a_is_an_error(tool, tmp_path, capsys):
    path = library(tmp_path, PLAIN)
    assert inspect_sass.main([str(path), "--arch", "sm_80"]) == 1
    assert "sm_80, dense_dp4a_1_kernel: neither IDP.4A nor IMMA" in capsys.readouterr().err


def test_of_an_artifact_it_says_how_kernels_fill_the_gpu(tool, tmp_path, capsys, monkeypatch):
    artifact = tmp_path / "network.ri8"
    with zipfile.ZipFile(artifact, "w") as archive:
        archive.write(library(tmp_path, DP4A, architectures=("sm_80",)), "library.so")
    kernel = {
        "launch": {"blocks": 54, "threads": 64},
        "usage": {"sm_80": {"registers": 16, "shared_bytes": 0}},
    }
    manifest = SimpleNamespace(gpu_code={"kernels": {"conv2d_dp4a_3_kernel": kernel}})
    monkeypatch.setattr(inspect_sass, "read_manifest", lambda _: manifest)
    monkeypatch.setenv("COLUMNS", "200")
    assert inspect_sass.main([str(artifact)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = (line.split() for line in lines if "_kernel" in line)
    assert row[7:11] == ["54", "32", "threads", "0.02"]  # 2048 threads, 108 multiprocessors
    assert 0 < float(row[12]) <= 0.5  # half of the multiprocessors have no block
    (medians,) = (line.split() for line in lines if line.startswith("dp4a"))
    assert medians == ["dp4a", "1", "32", "to", "32", "0", "0.02", "0.50", *row[11:13]]


def test_an_architecture_that_the_tool_forgot_is_named(tool, tmp_path, capsys):
    path = library(tmp_path, DP4A, architectures=("sm_61", "sm_80"))
    assert inspect_sass.main([str(path)]) == 0
    assert "sm_61 is there, but cannot be shown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"\x7fELF, no GPU", [], "no machine code for a GPU is in it"),
        (None, [], "cannot be read"),
    ],
)
def test_what_holds_no_code(tool, tmp_path, capsys, content, arguments, message):
    path = tmp_path / "library.so"
    if content is not None:
        path.write_bytes(content)
    assert inspect_sass.main([str(path), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_an_architecture_that_is_not_there(tool, tmp_path, capsys):
    path = library(tmp_path, DP4A, architectures=("sm_80",))
    assert inspect_sass.main([str(path), "--arch", "sm_75"]) == 1
    assert "no machine code for sm_75; it holds sm_80" in capsys.readouterr().err


@pytest.mark.fast
def test_without_the_tool_the_extra_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sass, "PACKAGES", ("no_such_package",))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "library.so").write_bytes(b"")
    assert inspect_sass.main([str(tmp_path / "library.so")]) == 1
    assert "pip install 'relay-int8[sass]'" in capsys.readouterr().err


@pytest.mark.fast
def test_fat_binaries_are_found_by_their_header():
    binary = MAGIC + bytes([1, 0, 16, 0]) + (5).to_bytes(8, "little") + b"12345"
    cut_short = MAGIC + bytes([1, 0, 16, 0]) + (99).to_bytes(8, "little") + b"12345"
    found = fat_binaries_in(b"x" + binary + MAGIC + b"noise" + binary + cut_short)
    assert list(found) == [binary, binary]


@pytest.mark.fast
def test_spills_and_modifiers_are_seen():
    text = """
        /*0150*/              @!P0 BRA 0x1a0 ;      /* 0x0000004000008947 */
                                                    /* 0x002fea0003800000 */
        /*0160*/                   IDP.4A.U8.S8 R4, R16.reuse, R4, RZ ;  /* 0x0000000410047226 */
        /*0170*/             @P1   STL [R1], R3 ;   /* 0x00 */
        /*0180*/              @UP0 LDL R3, [R1] ;   /* 0x00 */
        /*10190*/                  IMMA.16832.S8.S8 R4, R8, R9, R4 ;  /* 0x00 */
    """
    code = KernelCode(
        architecture="sm_80",
        name="conv2d_dp4a_0_kernel",
        text=text,
        registers=8,
        shared_bytes=0,
        stack_bytes=4,
    )
    assert (code.dp4a, code.mma, code.spills) == (1, 1, 2)
    assert sum(code.opcodes.values()) == 5
    assert inspect_sass.faults_of(code) == [
        "sm_80, conv2d_dp4a_0_kernel: 2 loads and stores of spilled registers (LDL, STL)"
    ]


@pytest.mark.fast
def test_kernels_are_told_by_their_templates():
    assert inspect_sass.template_of("conv2d_dp4a_12_kernel").name == "conv2d_dp4a"
    assert inspect_sass.template_of("fused_softmax_kernel") is None
