"""Gradients of the collectives on 1 to 3 ranks."""

from __future__ import annotations

from jobs import Job

JOBS = [Job("gradients.py", n) for n in (1, 2, 3)]


def test_gradients(problems):
    assert not problems
