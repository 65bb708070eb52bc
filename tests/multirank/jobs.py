"""Runs real jobs under real launchers."""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

WORKERS = Path(__file__).parent / "workers"
BIN = Path(sys.executable).parent
_MARK = "FASTHVD_TEST_JOB"
# Starts a command on so many ranks of one host, with the variables that srun sets.
_LIKE_SRUN = """
export SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=$1; shift
rank=0; while [ $rank -lt $SLURM_STEP_NUM_TASKS ]; do
  SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" & rank=$((rank + 1))
done
wait
"""


@dataclass(frozen=True)
class Job:
    """A worker script under a launcher.

    Attributes:
        worker: The script's name in `workers/`, or a path.
        ranks: How many ranks to start.
        arguments: For the script.
        launcher: "horovodrun", "mpirun", "srun" (a shell that sets Slurm's variables), or "".
        options: For the launcher.
        environment: Variables to set, as pairs.
        under: A command that runs the launcher.
        timeout_s: When to kill the job.
        label: Told apart by this in test names.
    """

    worker: str
    ranks: int = 1
    arguments: tuple[str, ...] = ()
    launcher: str = "horovodrun"
    options: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    under: tuple[str, ...] = ()
    timeout_s: float = 200.0
    label: str = ""

    def command(self) -> list[str]:
        start = {
            "horovodrun": [str(BIN / "horovodrun"), "-np", str(self.ranks), *self.options],
            "mpirun": [
                *("mpirun", "-np", str(self.ranks), "--oversubscribe", "--allow-run-as-root"),
                *self.options,
            ],
            "srun": ["sh", "-c", _LIKE_SRUN, "sh", str(self.ranks)],
            "": [],
        }[self.launcher]
        return [*self.under, *start, sys.executable, str(WORKERS / self.worker), *self.arguments]

    def __str__(self) -> str:
        return self.label or f"{self.ranks}ranks"


@dataclass
class Result:
    """What a job left.

    Attributes:
        code: The launcher's exit code; None if it was killed at its timeout.
        output: Standard output and error of all ranks, mixed.
        seconds: How long it took.
        notes: By rank, what it reported with `checks.note`: name → value.
    """

    code: int | None
    output: str
    seconds: float
    notes: dict[int, dict[str, object]] = field(default_factory=dict)

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.output.splitlines()[-lines:])


@functools.cache
def run(job: Job) -> Result:
    """Runs a job to its end, or kills all its processes at the timeout."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "",
            "FASTHVD_TEST_NOTES": folder,
            _MARK: mark,
            **dict(job.environment),
        }
        with open(f"{folder}/output", "w+", errors="replace") as output:
            start = time.monotonic()
            process = subprocess.Popen(
                job.command(),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(job.timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            seconds = time.monotonic() - start
            for pid in processes(mark):  # After a good end there are none.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            output.seek(0)
            result = Result(code, output.read(), seconds)
        for path in Path(folder).glob("*.jsonl"):
            with open(path) as lines:
                notes = dict(json.loads(line) for line in lines)
            result.notes[int(path.stem)] = notes
    return result


def processes(mark: str) -> Iterator[int]:
    """The processes that a job of ours has started and that are still there."""
    wanted = f"{_MARK}={mark}".encode()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    yield int(path.name)


def checks_in(job: Job) -> list[str]:
    """The checks that the job runs: those of its arguments, or all of its worker script."""
    if job.arguments:
        return list(job.arguments)
    tree = ast.parse((WORKERS / job.worker).read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("check_")]
