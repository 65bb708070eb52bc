"""Keras callbacks on 1 to 3 ranks."""

from __future__ import annotations

from jobs import Job

JOBS = [Job("callbacks.py", n) for n in (1, 2, 3)]


def test_callbacks(problems):
    assert not problems
