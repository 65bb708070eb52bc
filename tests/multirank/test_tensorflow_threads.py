"""TensorFlow's own threads leave the cores to the other ranks of the host."""

from __future__ import annotations

import pytest
from jobs import Job, run


def notes(case: str, ranks: int, options: tuple[str, ...] = (), spin: str = ""):
    environment = (("FASTHVD_TENSORFLOW_SPIN", spin),)
    job = Job("tensorflow_threads.py", ranks, (case,), options=options, environment=environment)
    result = run(job)
    assert result.code == 0, result.tail()
    assert all(notes["sum"] == sum(range(1, ranks + 1)) for notes in result.notes.values())
    return result


@pytest.mark.parametrize(
    ("ranks", "options", "spin", "spins"),
    [
        (1, (), "", True),
        (2, (), "", False),
        (2, ("-H", "localhost:1,127.0.0.1:1"), "", True),
        (2, (), "1", True),
        (1, (), "0", False),
    ],
)
def test_idle_threads_poll_only_where_a_rank_is_alone(ranks, options, spin, spins):
    result = notes("plain", ranks, options, spin)
    assert [result.notes[rank]["spins"] for rank in range(ranks)] == [spins] * ranks


def test_what_the_user_configured_stays():
    result = notes("configured", 2)
    assert [result.notes[rank]["threads"] for rank in range(2)] == [[3, 2]] * 2
    assert not any(result.notes[rank]["spins"] for rank in range(2))


def test_tensorflow_in_use_before_init_is_told_once():
    result = notes("used", 2)
    assert result.output.count("call init() before the first tensor") == 1, result.tail()
