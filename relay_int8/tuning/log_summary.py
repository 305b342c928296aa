"""The summary of a tuning log: its trials, and the time of the network's kernels."""

from __future__ import annotations

from collections.abc import Sequence

from relay_int8.tuning.trial_log import LogManifest, Trial
from relay_int8.tuning.winner import by_task, winner


def log_summary(manifest: LogManifest, trials: Sequence[Trial]) -> dict[str, float]:
    """Return how many trials there are, and the network's kernels' microseconds then and now."""
    winners = {key: winner(of_task) for key, of_task in by_task(trials).items()}
    known = [(manifest.occurrences.get(key, 1), best) for key, best in winners.items()]
    finite = [(count, best) for count, best in known if best.default_s < float("inf")]
    return {
        "trials": len(trials),
        "wrong": sum(trial.measured.verdict == "wrong" for trial in trials),
        "untuned_us": round(sum(count * best.default_s for count, best in finite) * 1e6, 2),
        "tuned_us": round(sum(count * best.seconds for count, best in finite) * 1e6, 2),
    }
