"""Inputs as users of published networks have them: pages of text, photographs, voices, files."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Array = np.ndarray
RATE = 16000  # samples of a voice in a second
TEXT = """
the quick brown fox jumps over lazy dog Invoice Total Amount Figure Table Abstract results of
networks 2026 No. 10,250.00 Street Paris telephone 0123456789
"""
WORDS = TEXT.split()
FORMANTS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480))
"""Hz, of four vowels of American English (Peterson and Barney, 1952)."""


def page(rng: np.random.Generator, height: int, width: int, lines: int | None = None) -> Array:
    """Return dark text on a light page, (1, 3, height, width) from -1 to 1, with some noise."""
    paper, ink = rng.integers(170, 256, 3), rng.integers(0, 90, 3)
    picture = Image.new("RGB", (width, height), tuple(int(v) for v in paper))
    draw = ImageDraw.Draw(picture)
    size = int(height * 0.7) if lines == 1 else int(rng.integers(12, 30))
    font, y = ImageFont.load_default(size=size), 2
    while y < height - size:
        text = " ".join(rng.choice(WORDS, int(rng.integers(2, 9))))
        draw.text((4, y), text, fill=tuple(int(v) for v in ink), font=font)
        y += int(size * rng.uniform(1.3, 2.6)) if lines != 1 else height
    pixels = np.asarray(picture, np.float32) + rng.normal(0, 4, (height, width, 3))
    return pixels.clip(0, 255).transpose(2, 0, 1)[None] / 127.5 - 1


def photograph(rng: np.random.Generator, height: int, width: int) -> Array:
    """Return a part of a photograph, (1, 3, height, width) from 0 to 255, perhaps mirrored."""
    # Here, since it takes seconds to import, and who collects the tests does not draw.
    from sklearn.datasets import load_sample_images  # type: ignore[import-untyped]

    photographs = load_sample_images().images
    whole = photographs[int(rng.integers(len(photographs)))]
    side = int(rng.integers(160, min(whole.shape[:2])))
    top, left = (int(rng.integers(extent - side + 1)) for extent in whole.shape[:2])
    part = Image.fromarray(whole[top : top + side, left : left + side])
    pixels: Array = np.asarray(part.resize((width, height), Image.Resampling.BICUBIC), np.float32)
    return pixels[:, :: int(rng.choice([-1, 1]))].transpose(2, 0, 1)[None]


def voice(rng: np.random.Generator, samples: int) -> Array:
    """Return vowels of a gliding pitch with pauses between them, from -1 to 1, with some noise."""
    time = np.arange(samples) / RATE
    pitch = np.interp(time, np.linspace(0, time[-1], 8), rng.uniform(90, 260, 8))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    vowels = np.array(FORMANTS)[rng.integers(len(FORMANTS), size=8)]
    formants = [np.interp(time, np.linspace(0, time[-1], 8), vowels[:, i]) for i in range(3)]
    sound = np.zeros(samples)
    for harmonic in range(1, 30):
        nearness = sum(np.exp(-(((harmonic * pitch - f) / 120) ** 2)) for f in formants)
        sound += (nearness + 0.02) / harmonic**0.5 * np.sin(harmonic * phase)
    loudness = np.interp(time, np.linspace(0, time[-1], 24), rng.choice([0.0, 0.3, 1.0], 24))
    sound = sound * loudness + rng.normal(0, 0.003, samples)
    scaled: Array = sound / np.abs(sound).max() * rng.uniform(0.1, 0.8)
    return scaled.astype(np.float32)


def bands(rng: np.random.Generator, frames: int, count: int) -> Array:
    """Return logarithms of the power of a voice, (frames, count), every 10 ms."""
    step, length = RATE // 100, RATE // 40
    sound = voice(rng, frames * step + length)
    starts = step * np.arange(frames)
    framed = sound[starts[:, None] + np.arange(length)] * np.hanning(length)
    power = np.abs(np.fft.rfft(framed, 512)) ** 2
    edges = np.linspace(0, power.shape[1] - 1, count + 1).astype(int)
    parts = [power[:, a : max(b, a + 1)].mean(axis=1) for a, b in pairwise(edges)]
    return np.log(np.stack(parts, axis=1) + 1e-6).astype(np.float32)


def file_bytes(rng: np.random.Generator, count: int) -> Array:
    """Return bytes of a file as numbers: words, or numbers of any value."""
    text = " ".join(rng.choice(WORDS, count)).encode()[:count]
    is_text = rng.random() < 0.7
    values = np.frombuffer(text, np.uint8) if is_text else rng.integers(0, 256, count)
    return values.astype(np.float32)
