"""Runs one job: one system on so many ranks, through all the works."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from typing import Any

from benchmarks.driver.systems import ROOT, System

WORKER = ROOT / "benchmarks" / "allreduce.py"

QUIET_CORES = 0.2  # no more busy cores than this before a job: the machine is quiet

_GRACE_SECONDS = 10.0
_LOG_TAIL_LINES = 30


class JobError(Exception):
    """A job that did not end well; the message holds the end of its output."""


def run_job(
    system: System, ranks: int, works: list[str], seconds: float, timeout: float
) -> list[dict[str, Any]]:
    """Runs the worker program on every rank and returns rank 0's records, one a work.

    Raises:
        JobError: The job failed, took longer than `timeout` seconds, or left works out.
    """
    with tempfile.TemporaryDirectory(prefix="fasthvd-benchmark-") as folder:
        output = pathlib.Path(folder) / "records.jsonl"
        log = pathlib.Path(folder) / "log"
        program = [
            str(WORKER),
            f"--module={system.module}",
            f"--works={','.join(works)}",
            f"--seconds={seconds}",
            f"--output={output}",
        ]
        with log.open("wb") as stream:
            # A session of its own, so that a job out of time can be ended as a whole; started in
            # the job's folder, so that no package is imported from the source tree.
            process = subprocess.Popen(
                system.command(ranks, program),
                cwd=folder,
                env=system.environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            raise JobError(f"not done after {timeout:.0f} s\n{_tail(log)}") from None
        except BaseException:  # Ctrl-C above all
            _end(process)
            raise
        if status:
            raise JobError(f"exit status {status}\n{_tail(log)}")
        records = [json.loads(line) for line in output.read_text().splitlines()]
    if [record["work"] for record in records] != works:
        raise JobError(f"only these works were done: {[record['work'] for record in records]}")
    return records


def busy_cores(interval: float = 0.5) -> float:
    """Returns how many cores are busy now, measured over `interval` seconds."""

    def busy_ticks() -> int:
        # user nice system idle iowait irq softirq steal
        ticks = [int(field) for field in pathlib.Path("/proc/stat").read_text().split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4]

    before = busy_ticks()
    time.sleep(interval)
    return (busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / interval


def wait_until_quiet(limit: float) -> float:
    """Waits at most `limit` seconds for other work to end; returns how many cores are busy then."""
    end = time.monotonic() + limit
    while (busy := busy_cores()) > QUIET_CORES and time.monotonic() < end:
        time.sleep(1.0)
    return busy


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the launcher and all that it started in its session, gently at first."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(_GRACE_SECONDS)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _tail(log: pathlib.Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    return "\n".join(f"    {line}" for line in lines)
