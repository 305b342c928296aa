"""The tables of a comparison, on a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks.measurement import Measurement
from benchmarks.systems import SYSTEMS, Family, Goal
from relay_int8.cli.terminal import show, table

GOALS: tuple[Goal, ...] = ("latency", "throughput")
FAMILIES: tuple[Family, ...] = ("relay-int8", "ONNX Runtime", "OpenVINO")
FLOAT32: Family = "float32"
MEASURED = ("relay-int8", "openvino-nncf")  # whose noise has a column
COLUMNS = (
    "network",
    "here ms",
    "ORT ms",
    "OV ms",
    "OV with",
    "fp32 ms",
    "ORT / here",
    "OV / here",
    "fp32 / here",
    "peak here",
    "peak ORT",
    "peak OV",
    "cosine",
    "dB here",
    "dB NNCF",
)
LEFT = ("network", "OV with")
EXPLANATION = """\
ORT is ONNX Runtime, statically quantized or, of networks with matrix products, dynamically,
whichever is faster; OV the faster of OpenVINO's networks quantized by NNCF and by ONNX Runtime
(QDQ), fp32 the faster of both in float32. Latency is the time of one run, one after the other, each
by all threads. Throughput is the time from one result to the next where as many runs are in flight
as there are threads, or as OpenVINO's hint THROUGHPUT finds best. "ms" is the whole batch, the
median of the turns. "ORT / here" is how many times longer ONNX Runtime takes, the median of the
ratio within each round: above 1 this project is faster. "peak" is the share of what the best
instruction for integers alone
reaches on as many cores; only multiplications of convolutions and matrix products inside the image
count. "cosine" is between the logits and those of float32, the least of all systems. "dB" is the
signal to noise of the logits, here and of OpenVINO's network quantized by NNCF."""


@dataclass(frozen=True)
class Section:
    """One table: what it shows, and its rows."""

    title: str
    rows: list[tuple[str, ...]]


def sections(cells: Iterable[Measurement]) -> Iterator[Section]:
    """Yield a table for each batch, number of threads and goal; geometric means come last."""
    groups: dict[tuple[int, int], list[Measurement]] = {}
    for cell in cells:
        groups.setdefault((cell.batch, cell.threads), []).append(cell)
    for (batch, threads), group in groups.items():
        for goal in GOALS:
            title = f"batch {batch}, {threads} thread{'s' * (threads > 1)}, {goal}"
            if any(cell.clock == "cpu" for cell in group):
                title += ", CPU seconds"
            yield Section(title, [*(_row(cell, goal) for cell in group), _means(group, goal)])


def print_tables(
    cells: Sequence[Measurement],
    facts: Mapping[str, str],
    console: Console,
    *,
    explain: bool = True,
) -> None:
    """Print what was measured, then where and with what."""
    for section in sections(cells):
        right = tuple(column for column in COLUMNS if column not in LEFT)
        rows = table(console, *COLUMNS, right=right)
        for row in section.rows:
            rows.add_row(*row)
        show(console, section.title, rows)
        console.print()
    for line in _failures(cells):
        console.print(line, style="red")
    if explain:
        console.print(EXPLANATION)
    for key, value in facts.items():
        console.print(f"{key}: {value}", soft_wrap=True)


def markdown(cells: Sequence[Measurement], facts: Mapping[str, str]) -> str:
    """Return the same as Markdown."""
    lines = []
    rules = ["---" if column in LEFT else "---:" for column in COLUMNS]
    for section in sections(cells):
        lines += [f"### {section.title[0].upper()}{section.title[1:]}", ""]
        lines += [f"| {' | '.join(row)} |" for row in (COLUMNS, tuple(rules), *section.rows)]
        lines.append("")
    lines += [f"- {line}" for line in _failures(cells)]
    lines += [EXPLANATION, "", *(f"- {key}: {value}" for key, value in facts.items())]
    return "\n".join(lines) + "\n"


def summary(cell: Measurement) -> str:
    """Return the median of every system in one line."""
    times = (f"{SYSTEMS[key].name} {_ms(cell, key)} ms" for key in cell.turns)
    return f"{cell.network}, batch {cell.batch}, threads {cell.threads}: {', '.join(times)}"


def _row(cell: Measurement, goal: Goal) -> tuple[str, ...]:
    best = [cell.fastest(family, goal) for family in FAMILIES]
    own, onnxruntime, openvino = best
    peers = (onnxruntime, openvino, cell.fastest(FLOAT32, goal))
    cosines = cell.cosines.values()
    return (
        cell.network,
        *(_ms(cell, system) for system in best),
        _quantizer(openvino, goal),
        _ms(cell, peers[-1]),
        *(_number(cell.ratio(peer, own), "{:.2f}") for peer in peers),
        *(_number(system and cell.share_of_peak(system), "{:.2f}") for system in best),
        _number(min(cosines, default=None), "{:.4f}"),
        *(_number(cell.snr_db.get(f"{system}-{goal}"), "{:.1f}") for system in MEASURED),
    )


def _means(cells: Sequence[Measurement], goal: Goal) -> tuple[str, ...]:
    own, *peers = FAMILIES
    ratios = [
        [cell.ratio(cell.fastest(peer, goal), cell.fastest(own, goal)) for cell in cells]
        for peer in (*peers, FLOAT32)
    ]
    means = [_geometric_mean([ratio for ratio in column if ratio]) for column in ratios]
    blank = ("",) * (len(COLUMNS) - 4)
    return ("geo. mean", *blank[:5], *(_number(mean, "{:.2f}") for mean in means), *blank[5:])


def _geometric_mean(values: Sequence[float]) -> float | None:
    return float(np.exp(np.mean(np.log(values)))) if values else None


def _quantizer(openvino: str | None, goal: Goal) -> str:
    if openvino is None:
        return "-"
    return SYSTEMS[openvino].name.removeprefix("OpenVINO ").removesuffix(f" {goal}")


def _ms(cell: Measurement, system: str | None) -> str:
    return "-" if system is None else f"{cell.median_s(system) * 1e3:.2f}"


def _number(value: object, form: str) -> str:
    return form.format(value) if isinstance(value, float) else "-"


def _failures(cells: Iterable[Measurement]) -> list[str]:
    found = {
        f"{cell.network}, batch {cell.batch}: {SYSTEMS[key].name} took no part: {reason}": None
        for cell in cells
        for key, reason in cell.failures.items()
    }
    return list(found)
