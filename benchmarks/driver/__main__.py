"""Compares tf_fasthvd's allreduce with stock Horovod's, in one run and alternating.

In every round each system runs one short job for each number of ranks, the systems one after the
other; every second round goes through them backwards, so that a machine that grows slower or
faster favours none. Nothing else of the benchmark runs meanwhile: an idle Horovod polls and an idle
Open MPI spins, so jobs are not kept alive side by side.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import subprocess
import sys
import time

from absl import app, flags

from benchmarks.driver import job, plot, table
from benchmarks.driver.results import Results, Sample
from benchmarks.driver.systems import OURS, ROOT, SYSTEMS, System
from benchmarks.works import WORKS

_RANKS = flags.DEFINE_list("ranks", ["2", "4"], "The numbers of ranks.")
_WORKS = flags.DEFINE_list("works", list(WORKS), f"What to reduce, of: {', '.join(WORKS)}.")
_SYSTEMS = flags.DEFINE_list(
    "systems", list(SYSTEMS), f"What to measure, of: {', '.join(SYSTEMS)}."
)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "How often each job is run.", 1)
_SECONDS = flags.DEFINE_float("seconds", 1.2, "About how long to measure each work in a job.", 0.0)
_QUICK = flags.DEFINE_boolean("quick", False, "One round of shorter jobs: a look, not a result.")
_TIMEOUT = flags.DEFINE_float("timeout", 300.0, "Seconds after which a job has failed.", 1.0)
_WAIT = flags.DEFINE_float(
    "wait_for_quiet", 0.0, "Seconds to wait, before each job, for other work to end.", 0.0
)
_JSON = flags.DEFINE_string(
    "json", None, "Where to write the results; default: benchmarks/results/<date and time>.json."
)
_PLOT = flags.DEFINE_string(
    "plot", None, "Where to draw the results as a PNG; default: beside the results."
)
_SHOW = flags.DEFINE_string(
    "show", None, "Measure nothing; print and plot the results in this JSON file."
)

_QUICK_SECONDS = 0.3

flags.register_validator(
    "ranks",
    lambda values: all(value.isdecimal() and int(value) > 0 for value in values),
    "must be positive numbers, separated by commas",
)
flags.register_validator(
    "works", lambda names: set(names) <= set(WORKS), f"must be of: {', '.join(WORKS)}"
)
flags.register_validator(
    "systems", lambda names: set(names) <= set(SYSTEMS), f"must be of: {', '.join(SYSTEMS)}"
)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _prepare(systems: list[System]) -> None:
    """Makes the peers' environment if needed, and ends the program if a system cannot run."""
    if any(system.name != OURS for system in systems):
        made = subprocess.run([ROOT / "benchmarks" / "make_peer_venv.sh"], check=False)
        if made.returncode:
            sys.exit("The peers' environment could not be made; see above.")
    reasons = {system.label: system.why_unusable() for system in systems}
    unusable = [f"{label} cannot be measured: {why}" for label, why in reasons.items() if why]
    if unusable:
        sys.exit("\n".join(unusable))


def _measure(
    systems: list[System],
    all_ranks: list[int],
    works: list[str],
    rounds: int,
    seconds: float,
) -> tuple[Results, list[str]]:
    """Runs all jobs; returns the results and one line for each job that failed."""
    results = Results()
    failures = []
    total = rounds * len(all_ranks) * len(systems)
    done = 0
    for round_ in range(rounds):
        for ranks in all_ranks:
            for system in systems if round_ % 2 == 0 else reversed(systems):
                done += 1
                title = f"round {round_ + 1}, {ranks} ranks, {system.label}"
                background = job.wait_until_quiet(_WAIT.value)
                start = time.monotonic()
                try:
                    records = job.run_job(system, ranks, works, seconds, _TIMEOUT.value)
                except job.JobError as error:
                    failures.append(f"{title}: {str(error).splitlines()[0]}")
                    _say(f"[{done}/{total}] {title}: FAILED: {error}")
                    continue
                results.samples.extend(
                    Sample.from_record(record, round_, system.name, background)
                    for record in records
                )
                _say(f"[{done}/{total}] {title}: {time.monotonic() - start:.0f} s")
    return results, failures


def _default_json() -> pathlib.Path:
    now = datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    return ROOT / "benchmarks" / "results" / f"{now}.json"


def main(_: list[str]) -> None:
    """Measures what the flags name, then prints, writes and draws it."""
    failures: list[str] = []
    if _SHOW.value:
        path = pathlib.Path(_SHOW.value)
        results = Results.read(path)
    else:
        # In the table's order, whatever the flags' order; doubles dropped.
        systems = [system for name, system in SYSTEMS.items() if name in _SYSTEMS.value]
        works = [name for name in WORKS if name in _WORKS.value]
        all_ranks = sorted({int(value) for value in _RANKS.value})
        rounds = 1 if _QUICK.value else _ROUNDS.value
        seconds = min(_QUICK_SECONDS, _SECONDS.value) if _QUICK.value else _SECONDS.value
        _prepare(systems)
        results, failures = _measure(systems, all_ranks, works, rounds, seconds)
        path = pathlib.Path(_JSON.value) if _JSON.value else _default_json()
        prefixes = ("FASTHVD_", "HOROVOD_", "OMPI_", "TF_")
        environment = {
            name: value for name, value in os.environ.items() if name.startswith(prefixes)
        }
        settings = {"rounds": rounds, "seconds": seconds, "environment": environment}
        results.write(path, {**settings, "failures": failures})
        _say(f"results: {path}")
    if results.samples:
        print(table.render(results), flush=True)
        picture = pathlib.Path(_PLOT.value) if _PLOT.value else path.with_suffix(".png")
        plot.plot(results, picture)
        _say(f"plot: {picture}")
    if failures:
        sys.exit("\n".join(["These jobs failed:", *failures]))


if __name__ == "__main__":
    app.run(main)
