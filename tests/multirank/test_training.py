"""Training on 1 to 4 ranks."""

from __future__ import annotations

from jobs import Job

JOBS = [Job("training.py", n, timeout_s=280.0) for n in (1, 2, 3)]


def test_training(problems):
    assert not problems
