"""The measurements of a run, and the figures drawn from them."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.driver import targets
from benchmarks.driver.systems import OURS, SYSTEMS
from benchmarks.works import WORKS


@dataclasses.dataclass(frozen=True)
class Sample:
    """One work in one job.

    Attributes:
        round: The round of the run, from 0.
        system: The name of the system.
        ranks: The number of ranks.
        work: The name of the work.
        repetitions: How often the work was repeated.
        seconds: The median of the repetitions on rank 0.
        seconds_mean: Their mean.
        seconds_min: The fastest of them.
        cpu_seconds_per_gb: User and system time of all ranks for each GB (1e9 bytes) reduced, where
            the tensors of every rank count: a work of 1 GB on 4 ranks counts as 4 GB.
        background_cores: How many cores were busy just before the job started.
    """

    round: int
    system: str
    ranks: int
    work: str
    repetitions: int
    seconds: float
    seconds_mean: float
    seconds_min: float
    cpu_seconds_per_gb: float
    background_cores: float

    @classmethod
    def from_record(
        cls, record: dict[str, Any], round_: int, system: str, background_cores: float
    ) -> Sample:
        """Condenses what the worker program wrote."""
        seconds = record["seconds"]
        gigabytes = record["nbytes"] * record["ranks"] * len(seconds) / 1e9
        return cls(
            round=round_,
            system=system,
            ranks=record["ranks"],
            work=record["work"],
            repetitions=len(seconds),
            seconds=statistics.median(seconds),
            seconds_mean=statistics.fmean(seconds),
            seconds_min=min(seconds),
            cpu_seconds_per_gb=record["cpu_seconds"] / gigabytes,
            background_cores=background_cores,
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One work on one number of ranks: each system's figure, and ours against the others.

    Attributes:
        work: The name of the work.
        ranks: The number of ranks.
        values: system -> the median over the rounds, for the systems that were measured.
        ratios: peer -> how many times better ours is; empty without ours.
        ratio: Ours against the best peer; None if either is missing.
        target: What `ratio` should reach at least; None where nothing is asked.
    """

    work: str
    ranks: int
    values: dict[str, float]
    ratios: dict[str, float]
    ratio: float | None
    target: float | None

    @property
    def passed(self) -> bool | None:
        """Whether the target is reached; None if there is none or nothing to judge."""
        if self.ratio is None or self.target is None:
            return None
        return self.ratio >= self.target


class Results:
    """All samples of a run. Not thread-safe."""

    def __init__(self, samples: list[Sample] | None = None) -> None:
        """Starts with these samples, or none."""
        self.samples = list(samples or [])

    def ranks(self) -> list[int]:
        """Returns the numbers of ranks that were measured."""
        return sorted({sample.ranks for sample in self.samples})

    def systems(self) -> list[str]:
        """Returns the systems that were measured, in the order of the table."""
        measured = {sample.system for sample in self.samples}
        return [name for name in SYSTEMS if name in measured]

    def latencies(self, ranks: int) -> list[Comparison]:
        """Returns seconds a repetition, one comparison a work."""
        return self._compare(
            ranks,
            lambda sample: sample.seconds,
            lambda work: targets.LATENCY_RATIO.get(work, {}).get(ranks),
        )

    def cpu_times(self, ranks: int) -> list[Comparison]:
        """Returns CPU seconds a GB, one comparison a work."""
        return self._compare(
            ranks,
            lambda sample: sample.cpu_seconds_per_gb,
            lambda work: 1 / targets.CPU_RATIO[work] if work in targets.CPU_RATIO else None,
        )

    def busiest_background(self) -> float:
        """Returns the most cores that were busy before any job."""
        return max((sample.background_cores for sample in self.samples), default=0.0)

    def write(self, path: pathlib.Path, settings: dict[str, Any]) -> None:
        """Writes samples, comparisons and a description of the machine as JSON."""
        document = {
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": describe_machine(),
            "settings": settings,
            "latency_seconds": self._as_json(self.latencies),
            "cpu_seconds_per_gb": self._as_json(self.cpu_times),
            "samples": [dataclasses.asdict(sample) for sample in self.samples],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: pathlib.Path) -> Results:
        """Reads what `write` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls([Sample(**sample) for sample in document["samples"]])

    def _as_json(self, figures: Callable[[int], list[Comparison]]) -> list[dict[str, Any]]:
        return [
            {**dataclasses.asdict(comparison), "passed": comparison.passed}
            for ranks in self.ranks()
            for comparison in figures(ranks)
        ]

    def _compare(
        self,
        ranks: int,
        figure: Callable[[Sample], float],
        target: Callable[[str], float | None],
    ) -> list[Comparison]:
        comparisons = []
        for work in WORKS:
            figures: dict[str, list[float]] = {}
            for sample in self.samples:
                if sample.ranks == ranks and sample.work == work:
                    figures.setdefault(sample.system, []).append(figure(sample))
            if not figures:
                continue
            values = {
                system: statistics.median(figures[system])
                for system in SYSTEMS
                if system in figures
            }
            ours = values.get(OURS)
            ratios = {peer: value / ours for peer, value in values.items() if ours and peer != OURS}
            best = min(ratios.values(), default=None)
            comparisons.append(Comparison(work, ranks, values, ratios, best, target(work)))
        return comparisons


def describe_machine() -> dict[str, Any]:
    """Returns what a reader of the figures needs to know of this machine."""
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
    }
