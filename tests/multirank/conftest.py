"""Runs real jobs under real launchers.

Starting a job costs seconds, so a worker script (`workers/`) has many checks: functions named
`check_*` that every rank runs in order. A test module lists its jobs in `JOBS`, and a test
function with the argument `problems` becomes one test per job and check; a job runs once, when
its first test needs its results.
"""

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

import pytest

WORKERS = Path(__file__).parent / "workers"
BIN = Path(sys.executable).parent
_MARK = "FASTHVD_TEST_JOB"


@dataclass(frozen=True)
class Job:
    """A worker script under a launcher.

    Attributes:
        worker: The script's name in `workers/`, or a path.
        ranks: How many ranks to start.
        arguments: For the script.
        launcher: "horovodrun", "mpirun" or "" for none.
        options: For the launcher.
        environment: Variables to set, as pairs.
        timeout_s: When to kill the job.
        label: Told apart by this in test names.
    """

    worker: str
    ranks: int = 1
    arguments: tuple[str, ...] = ()
    launcher: str = "horovodrun"
    options: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 200.0
    label: str = ""

    def command(self) -> list[str]:
        start = {
            "horovodrun": [str(BIN / "horovodrun"), "-np", str(self.ranks), *self.options],
            "mpirun": [
                *("mpirun", "-np", str(self.ranks), "--oversubscribe", "--allow-run-as-root"),
                *self.options,
            ],
            "": [],
        }[self.launcher]
        return [*start, sys.executable, str(WORKERS / self.worker), *self.arguments]

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
            for pid in _processes(mark):  # After a good end there are none.
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


def _processes(mark: str) -> Iterator[int]:
    """The processes that a job of ours has started and that are still there."""
    wanted = f"{_MARK}={mark}".encode()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    yield int(path.name)


def _checks_in(worker: str) -> list[str]:
    tree = ast.parse((WORKERS / worker).read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("check_")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "problems" in metafunc.fixturenames:
        cases = [(job, name) for job in metafunc.module.JOBS for name in _checks_in(job.worker)]
        metafunc.parametrize(
            "problems", cases, indirect=True, ids=[f"{job}-{name}" for job, name in cases]
        )


@pytest.fixture
def problems(request: pytest.FixtureRequest) -> str:
    """What went wrong in a check, on all ranks; the empty text if nothing did."""
    job, name = request.param
    result = run(job)
    seen = {rank: result.notes.get(rank, {}).get(name) for rank in range(job.ranks)}
    if all(text == "skipped" for text in seen.values()):
        pytest.skip(f"does not apply to {job}")
    if None in seen.values():
        return f"{name} did not end on all ranks (exit code {result.code}):\n{result.tail()}"
    return "\n".join(f"rank {rank}: {text}" for rank, text in seen.items() if text)


@pytest.fixture
def run_job():
    """The function `run`: runs a `Job` (an argument of this fixture's module) once."""
    return run


@pytest.fixture
def processes_of():
    return _processes
