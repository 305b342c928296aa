"""Published threshold searches, written out loop by loop: slow, and independent of the package.

Each takes integer counts and returns the index of its best candidate or the threshold in bins.
"""

import math

EPS = 1e-4
TIE = 1e-12


def first_least(values):
    """Return the first index whose value is the least, but for rounding."""
    least = min(values)
    return next(i for i, value in enumerate(values) if value <= least + TIE)


def last_least(values):
    least = min(values)
    return max(i for i, value in enumerate(values) if value <= least + TIE)


def entropy(p, q):
    """Return what scipy.stats.entropy does."""
    total_p, total_q = math.fsum(p), math.fsum(q)
    if total_q == 0:
        return math.inf
    result = 0.0
    for a, b in zip(p, q, strict=True):
        if a > 0 and b == 0:
            return math.inf
        if a > 0:
            result += a / total_p * math.log(a * total_q / (total_p * b))
    return result


def pytorch_quantization(counts, levels):
    """Return how many bins are kept, and all divergences."""
    bins = [int(count) for count in counts]
    bins[0] = bins[1]
    found = []
    for i in range(128, len(bins) + 1):
        edges = [k * i / levels for k in range(levels + 1)]
        digits = []
        level = 0
        for j in range(i):
            while level + 1 <= levels and edges[level + 1] <= j:
                level += 1
            digits.append(level if bins[j] else -1)
        sums, members = [0.0] * levels, [0] * levels
        for j, level in enumerate(digits):
            if level >= 0:
                sums[level] += bins[j]
                members[level] += 1
        q = [sums[level] / members[level] if level >= 0 else 0.0 for level in digits]
        p = bins[:i]
        p[-1] += sum(bins[i:])
        found.append(entropy(p, q))
    return 128 + last_least(found), found


def smooth(values):
    zeros = sum(1 for value in values if value == 0)
    filled = len(values) - zeros
    if not filled:
        return None
    less = EPS * zeros / filled
    assert less < 1
    return [EPS if value == 0 else value - less for value in values]


def mxnet(counts, levels):
    """Return the divergences of the candidates levels // 2 .. len(counts) // 2."""
    counts = [int(count) for count in counts]
    middle, found = len(counts) // 2, []
    for i in range(levels // 2, middle + 1):
        start, stop = middle - i, middle + i + 1
        p, s = [0.0] * (stop - start), [0] * (stop - start)
        for j, count in enumerate(counts):
            if j <= start:
                p[0] += count
            elif j >= stop:
                p[-1] += count
            else:
                s[j - start] = count
                p[j - start] = count
        m = len(s) // levels
        q = [0.0] * len(s)
        for level in range(levels):
            begin = level * m
            end = len(s) if level == levels - 1 else begin + m
            filled = sum(1 for count in s[begin:end] if count)
            for k in range(begin, end):
                if filled and p[k]:
                    q[k] = sum(s[begin:end]) / filled
        p, q = smooth(p), smooth(q)
        found.append(math.inf if p is None or q is None else entropy(p, q))
    return found


def ncnn(counts):
    """Return the divergences of the candidates 128 .. len(counts) - 1."""
    total, found = sum(int(count) for count in counts), []
    h = [int(count) / total for count in counts]
    for i in range(128, len(h)):
        clip = [EPS + h[j] for j in range(i)]
        clip[-1] += math.fsum(h[i:])
        wide = i / 128
        levels = []
        for k in range(128):
            start, end = k * wide, (k + 1) * wide
            mass = sum(
                h[j] * max(0.0, min(end, j + 1) - max(start, j))
                for j in range(math.floor(start), math.ceil(end))
            )
            levels.append(mass / wide)
        expanded = [EPS] * i
        for k in range(128):
            start, end = k * wide, (k + 1) * wide
            for j in range(math.floor(start), math.ceil(end)):
                expanded[j] += levels[k] * max(0.0, min(end, j + 1) - max(start, j))
        found.append(math.fsum(a * math.log(a / b) for a, b in zip(clip, expanded, strict=True)))
    return found


def whole_levels(counts):
    """Return the divergences of the candidates 128, 256, ..., len(counts): TPU-MLIR, PPQ."""
    hist = [int(count) for count in counts]
    total, found = sum(hist), []
    for i in range(128, len(hist) + 1, 128):
        p = [0.0] * i
        for j, count in enumerate(hist):
            p[min(j, i - 1)] += count / total
        inside, wide, q = sum(hist[:i]), i // 128, [0.0] * i
        for level in range(128):
            members = range(level * wide, (level + 1) * wide)
            filled = sum(1 for j in members if hist[j] > 0) or 1
            for j in members:
                if hist[j]:
                    q[j] = sum(hist[k] for k in members) / filled / inside
        found.append(
            math.fsum(
                a * (math.log10(a + 1e-30) - math.log10(b + 1e-30))
                for a, b in zip(p, q, strict=True)
            )
        )
    return found


def mse(counts, steps):
    """Return the summed squared errors of the candidates 128 .. len(counts) - 1, in bins."""
    found = []
    for i in range(128, len(counts)):
        scale, error = steps / (i + 0.5), 0.0
        for j, count in enumerate(counts):
            x = j + 0.5
            error += int(count) * (min(round(x * scale), steps) / scale - x) ** 2
        found.append(error)
    return found


def octav(counts, noise):
    """Return the cost of a threshold s, in bins, as a function."""
    pairs = [(j + 0.5, int(count)) for j, count in enumerate(counts) if count]

    def cost(s):
        return sum(n * (noise * s * s if x <= s else (x - s) ** 2) for x, n in pairs)

    return cost
