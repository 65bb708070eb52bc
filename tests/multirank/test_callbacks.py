"""Keras callbacks on 1 and 2 ranks."""

from __future__ import annotations

from jobs import Job

JOBS = [Job("callbacks.py", n) for n in (1, 2)]


def test_callbacks(problems):
    assert not problems, problems
