"""Into how many slices a reduction is split, so that a small feature map keeps a GPU busy.

A thread sums four words of y at least. Where so few threads leave most of a GPU idle, those of one
block share a reduction: slice s sums the words ``k = slices * k' + s`` of x, so that neighbouring
threads read neighbouring words; the partial sums meet in shared memory, and are requantized there.
Sums of int32 wrap and are associative: the integers are the same.
"""

from __future__ import annotations

WORDS = 4  # of y a thread
THREADS = 80 * 512  # that a GPU wants
WORTH = 4  # times more threads; fewer do not pay for the partial sums
LEAST = 8  # words of x and w a slice sums at least


def slices(inputs: int, taps: int, words: int) -> int:
    """Return the slices of a reduction over ``inputs`` words of x and ``taps`` of the window.

    Parameters
    ----------
    words
        Outputs, four channels each; of one image where the batch is symbolic.
    """
    wanted = THREADS * WORDS // words
    if wanted < WORTH:
        return 1
    fitting = [
        count
        for count in (1, 2, 4, 8, 16, 32)
        if inputs % count == 0 and count <= wanted and inputs * taps >= LEAST * count
    ]
    return max(fitting, default=1)
