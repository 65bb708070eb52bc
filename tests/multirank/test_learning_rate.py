"""Callbacks that set the learning rate, on 1 and 2 ranks."""

from __future__ import annotations

from jobs import Job

JOBS = [Job("learning_rate.py", n) for n in (1, 2)]


def test_learning_rate(problems):
    assert not problems, problems
