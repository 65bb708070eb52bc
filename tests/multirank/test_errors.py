"""Wrong input on 2 and 3 ranks: clear errors, and the job goes on."""

from __future__ import annotations

from jobs import Job

JOBS = [Job("errors.py", n) for n in (2, 3)]


def test_errors(problems):
    assert not problems, problems
