"""Training on 1 to 4 ranks."""

from __future__ import annotations

from jobs import Job

_MAIN = ("check_sgd", "check_adam")
_MORE = ("check_steps_per_execution", "check_eager", "check_tape")

JOBS = [
    Job("training.py", 2, timeout_s=280.0),
    Job("training.py", 3, arguments=_MAIN + _MORE),
    *(Job("training.py", n, arguments=_MAIN) for n in (1, 4)),
]


def test_training(problems):
    assert not problems, problems
