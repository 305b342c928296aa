"""CanonicalizeTokens: images become rows of channels, and back, by one permutation."""

import pytest
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.canonicalize_tokens import CanonicalizeTokens

pytestmark = pytest.mark.fast


def test_an_image_becomes_rows_and_an_image_again(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 8, 3, 5), "float32")) -> R.Tensor((2, 8, 5, 3), "float32"):
            with R.dataflow():
                f = R.reshape(x, (2, 8, 15))
                t = R.permute_dims(f, (0, 2, 1))
                r = R.nn.relu(t)
                u = R.permute_dims(r, (0, 2, 1))
                y = R.reshape(u, (2, 8, 5, 3))
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 8, 3, 5), "float32")) -> R.Tensor((2, 8, 5, 3), "float32"):
            with R.dataflow():
                i = R.permute_dims(x, (0, 2, 3, 1))
                t = R.reshape(i, (2, 15, 8))
                r = R.nn.relu(t)
                j = R.reshape(r, (2, 5, 3, 8))
                y = R.permute_dims(j, (0, 3, 1, 2))
                R.output(y)
            return y

    expect_rewrite(CanonicalizeTokens(), Before, Expected)


@pytest.mark.parametrize("case", ["read twice", "channels are cut", "another permutation"])
def test_other_moves_stay(expect_rewrite, case: str):
    @I.ir_module
    class ReadTwice:
        @R.function
        def main(x: R.Tensor((1, 8, 3, 5), "float32")) -> R.Tuple(
            R.Tensor((1, 8, 15), "float32"), R.Tensor((1, 15, 8), "float32")
        ):
            with R.dataflow():
                f = R.reshape(x, (1, 8, 15))
                t = R.permute_dims(f, (0, 2, 1))
                y = (f, t)
                R.output(y)
            return y

    @I.ir_module
    class ChannelsAreCut:
        @R.function
        def main(x: R.Tensor((1, 8, 3, 5), "float32")) -> R.Tensor((1, 30, 4), "float32"):
            with R.dataflow():
                f = R.reshape(x, (1, 4, 30))
                t = R.permute_dims(f, (0, 2, 1))
                R.output(t)
            return t

    @I.ir_module
    class AnotherPermutation:
        @R.function
        def main(x: R.Tensor((2, 8, 15), "float32")) -> R.Tensor((8, 2, 5, 3), "float32"):
            with R.dataflow():
                t = R.permute_dims(x, (1, 0, 2))
                y = R.reshape(t, (8, 2, 5, 3))
                R.output(y)
            return y

    modules = {
        "read twice": ReadTwice,
        "channels are cut": ChannelsAreCut,
        "another permutation": AnotherPermutation,
    }
    expect_rewrite(CanonicalizeTokens(), modules[case], modules[case])
