"""Makes tests of jobs.

Starting a job costs seconds, so a worker script (`workers/`) has many checks: functions named
`check_*` that every rank runs in order. A test module lists its jobs in `JOBS`, and a test
function with the argument `problems` becomes one test per job and check; a job runs once, when
its first test needs its results.
"""

from __future__ import annotations

import jobs
import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "problems" in metafunc.fixturenames:
        cases = [(job, name) for job in metafunc.module.JOBS for name in jobs.checks_in(job)]
        ids = [f"{job}-{name}" for job, name in cases]
        metafunc.parametrize("problems", cases, indirect=True, ids=ids)


@pytest.fixture
def problems(request: pytest.FixtureRequest) -> str:
    """What went wrong in a check, on all ranks; the empty text if nothing did."""
    job, name = request.param
    result = jobs.run(job)
    seen = {rank: result.notes.get(rank, {}).get(name) for rank in range(job.ranks)}
    if all(text == "skipped" for text in seen.values()):
        pytest.skip(f"does not apply to {job}")
    texts = [f"rank {rank}: {text}" for rank, text in seen.items() if text]
    if None in seen.values():
        texts.append(f"{name} did not end on all ranks (exit code {result.code}):")
        texts.append(result.tail())
    return "\n".join(texts)
