"""Gradients of the collectives on 1 and 3 ranks."""

from __future__ import annotations

from jobs import Job

JOBS = [Job("gradients.py", n) for n in (1, 3)]


def test_gradients(problems):
    assert not problems, problems
