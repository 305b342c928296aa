"""What an exported library holds beside machine code, packed by the assembler.

TVM writes the virtual machine's bytecode and constants, that is all weights, as an array of LLVM,
which compiles it: a minute and gigabytes of memory for VGG-19's 144 MB. An assembler includes a
file as it is.
"""

from __future__ import annotations

from pathlib import Path

import tvm
import tvm_ffi

ALIGNMENT = 64  # as the memory that TVM allocates

# .rodata of ELF, as TVM's own array has it; the stack of the process stays not executable.
ASSEMBLY = """\
    .section .rodata
    .globl __tvm_ffi__library_bin
    .type __tvm_ffi__library_bin, %object
    .balign {alignment}
__tvm_ffi__library_bin:
    .incbin "{file}"
    .size __tvm_ffi__library_bin, . - __tvm_ffi__library_bin
    .section .note.GNU-stack, "", %progbits
"""


def pack_imports(
    module: tvm.runtime.Module, _is_system_library: bool, _prefix: str, folder: str
) -> str:
    """Return a file of assembly for the imports of ``module``; ``export_library`` calls it so."""
    content = Path(folder) / "imports.bin"
    content.write_bytes(_imports(module))
    file = Path(folder) / "imports.s"
    file.write_text(ASSEMBLY.format(alignment=ALIGNMENT, file=content))
    return str(file)


def _imports(module: tvm.runtime.Module) -> memoryview:
    pack = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")
    return memoryview(pack(module).numpy())
