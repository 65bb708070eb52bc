"""The results as text."""

from __future__ import annotations

import os

from benchmarks.driver import job, targets
from benchmarks.driver.results import Comparison, Results
from benchmarks.driver.systems import OURS, SYSTEMS
from benchmarks.works import WORKS


def render(results: Results) -> str:
    """Returns the tables of a run, and what to keep in mind when reading them."""
    parts = []
    for ranks in results.ranks():
        parts.append(
            _table(
                f"{ranks} ranks: milliseconds a call (median)",
                results.latencies(ranks),
                results.systems(),
                scale=1e3,
                at_least=True,
            )
        )
        parts.append(
            _table(
                f"{ranks} ranks: CPU seconds a GB (all ranks' time for all ranks' tensors)",
                results.cpu_times(ranks),
                results.systems(),
                scale=1.0,
                at_least=False,
            )
        )
    parts.append("\n".join(_notes(results)))
    return "\n\n".join(parts)


def _table(
    title: str, comparisons: list[Comparison], systems: list[str], scale: float, at_least: bool
) -> str:
    """Lays out one table; `at_least` says which way its ratios go, theirs/ours or ours/theirs."""
    peers = [system for system in systems if system != OURS]
    header = ["", *(SYSTEMS[system].label for system in systems)]
    with_ratios = OURS in systems and bool(peers)
    if with_ratios:
        header += [f"vs {peer}" for peer in peers] + ["vs best", "target", ""]
    rows = [header]
    for comparison in comparisons:
        row = [WORKS[comparison.work].label]
        row += [_number(comparison.values.get(system), scale) for system in systems]
        if with_ratios:
            row += [_ratio(comparison.ratios.get(peer), at_least) for peer in peers]
            row += [_ratio(comparison.ratio, at_least), _target(comparison.target, at_least)]
            row.append({True: "pass", False: "FAIL", None: ""}[comparison.passed])
        rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([title, lines[0], "-" * len(lines[0]), *lines[1:]])


def _number(value: float | None, scale: float) -> str:
    if value is None:
        return "-"
    value *= scale
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _ratio(better: float | None, at_least: bool) -> str:
    if better is None:
        return "-"
    return f"{better:.2f}x" if at_least else f"{1 / better:.2f}x"


def _target(target: float | None, at_least: bool) -> str:
    if target is None:
        return ""
    return f">= {target:.1f}x" if at_least else f"<= {1 / target:.1f}x"


def _notes(results: Results) -> list[str]:
    notes = [
        "Latency ratios are theirs/ours, CPU ratios ours/theirs; `best` is the row's best peer.",
    ]
    verdicts = [
        comparison.passed
        for ranks in results.ranks()
        for comparison in (*results.latencies(ranks), *results.cpu_times(ranks))
        if comparison.passed is not None
    ]
    if verdicts:
        notes.append(f"Targets reached: {sum(verdicts)} of {len(verdicts)}.")
    if os.cpu_count() != targets.TARGET_CORES:
        notes.append(
            f"The targets are meant for {targets.TARGET_CORES} cores; this machine has "
            f"{os.cpu_count()}."
        )
    background = results.busiest_background()
    if background > job.QUIET_CORES:
        notes.append(
            f"WARNING: the machine was not quiet: up to {background:.1f} cores were busy with "
            "other work before a job. Trust only figures from a quiet machine."
        )
    return notes
