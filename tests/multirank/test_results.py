"""The memory of large results, recycled and not."""

from __future__ import annotations

from jobs import Job

_NOTHING_KEPT = ("FASTHVD_RESULT_KEEP_BYTES", "0")
_IN_USE = ("check_results_in_use_are_left_alone", "check_results_outlive_the_runtime")

JOBS = [
    Job("results.py", 2),
    Job("results.py", 3, _IN_USE, environment=(_NOTHING_KEPT,), label="3ranks-nothing-kept"),
]


def test_results(problems):
    assert not problems, problems
