"""Facts about a Relax function: its bindings, groups, layers, signs and digests.

Errors are registered with TVM here, below everything that is called by its passes: one that is
raised inside a pass crosses TVM's C++ and arrives as what it was, not as a RuntimeError.
"""

from tvm_ffi import register_error

from relay_int8.errors import ERRORS

for _error in ERRORS:
    register_error(_error)
