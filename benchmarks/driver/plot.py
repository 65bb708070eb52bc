"""The results as a picture."""

from __future__ import annotations

import pathlib

from benchmarks.driver.results import Results
from benchmarks.driver.systems import OURS, SYSTEMS
from benchmarks.works import WORKS

_COLOURS = {OURS: "#d1495b", "gloo": "#edae49", "mpi": "#66a182", "mpi-yield": "#2e4057"}
_BAR_GROUP_WIDTH = 0.8


def plot(results: Results, path: pathlib.Path) -> None:
    """Draws one panel a number of ranks: milliseconds a call for each work and system.

    Above each of our bars stands how many times faster it is than the best peer.
    """
    # Only a run with a picture needs Matplotlib; Agg needs no display.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    all_ranks = results.ranks()
    systems = results.systems()
    figure, panels = pyplot.subplots(
        1, len(all_ranks), figsize=(6.5 * len(all_ranks), 4.2), sharey=True, squeeze=False
    )
    for panel, ranks in zip(panels[0], all_ranks, strict=True):
        comparisons = results.latencies(ranks)
        width = _BAR_GROUP_WIDTH / len(systems)
        for index, system in enumerate(systems):
            measured = [
                (position, comparison)
                for position, comparison in enumerate(comparisons)
                if system in comparison.values
            ]
            offset = (index - (len(systems) - 1) / 2) * width
            bars = panel.bar(
                [position + offset for position, _ in measured],
                [1e3 * comparison.values[system] for _, comparison in measured],
                width,
                label=SYSTEMS[system].label,
                color=_COLOURS[system],
            )
            if system == OURS:
                labels = [
                    "" if comparison.ratio is None else f"{comparison.ratio:.1f}x"
                    for _, comparison in measured
                ]
                panel.bar_label(bars, labels, fontsize=8, fontweight="bold", padding=2)
        panel.set_yscale("log")
        panel.set_xticks(
            range(len(comparisons)),
            [WORKS[comparison.work].label.replace(", ", "\n") for comparison in comparisons],
            fontsize=8,
        )
        panel.set_title(f"{ranks} ranks on one host")
        panel.grid(axis="y", alpha=0.3)
        panel.set_axisbelow(True)
    panels[0][0].set_ylabel("allreduce in a tf.function, ms (log)")
    panels[0][0].legend(fontsize=8, loc="upper left")
    if OURS in systems:
        figure.text(
            0.5, 0.005, "x: times faster than the best Horovod", ha="center", fontsize=8, alpha=0.8
        )
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
