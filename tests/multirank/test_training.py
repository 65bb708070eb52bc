"""Training on 1 to 4 ranks."""

from __future__ import annotations

from jobs import Job

_MAIN = ("check_sgd", "check_adam", "check_steps_per_execution", "check_eager", "check_tape")

JOBS = [
    Job("training.py", 2, timeout_s=280.0),
    *(Job("training.py", n, arguments=_MAIN) for n in (1, 3, 4)),
]


def test_training(problems):
    assert not problems, problems
