"""Ranks that die, leave, raise or never come; and starting again."""

from __future__ import annotations

import pytest
from jobs import Job, run


def faulty(fault: str, ranks: int, **options) -> Job:
    options.setdefault("timeout_s", 90.0)
    return Job("faults.py", ranks, arguments=(fault,), **options)


TCP = (("FASTHVD_SHARED_MEMORY", "0"),)


@pytest.mark.parametrize(
    ("fault", "ranks", "environment"),
    [
        ("killed", 3, ()),
        ("killed", 3, TCP),
        ("killed_in_fit", 2, ()),
        ("raises", 2, ()),
    ],
)
def test_peers_of_a_lost_rank_raise_soon(fault, ranks, environment):
    result = run(faulty(fault, ranks, environment=environment))
    assert result.code not in (0, None), result.tail()
    lost_at = result.notes[1]["killed at"]
    for rank in set(range(ranks)) - {1}:
        notes = result.notes.get(rank, {})
        assert "raised" in notes, f"rank {rank} did not raise:\n{result.tail()}"
        assert notes["raised at"] - lost_at < 2.0
        assert "HorovodInternalError" in notes["raised"], notes["raised"]
        assert "rank 1" in notes["raised"], notes["raised"]
        if fault != "killed_in_fit":
            assert notes["raised"].startswith("HorovodInternalError")
            assert notes["later"] == "HorovodInternalError"
    if fault == "raises":
        assert "the fault of rank 1" in result.output


def test_a_rank_that_leaves():
    result = run(faulty("leaves", 2))
    notes = result.notes[0]
    assert notes["raised at"] - result.notes[1]["killed at"] < 2.0, result.tail()
    assert "1" in notes["raised"]


def test_missing_rank_is_named(ranks=3):
    settings = (("HOROVOD_GLOO_TIMEOUT_SECONDS", "3"),)
    result = run(faulty("missing", ranks, environment=settings))
    assert result.code not in (0, None)
    for rank in set(range(ranks)) - {1}:
        notes = result.notes[rank]
        assert f"rank 1 of {ranks} did not call tf_fasthvd.init() within 3 s" in notes["raised"]
        assert notes["after"] < 10


@pytest.mark.parametrize(("ranks", "environment"), [(2, ()), (3, TCP)], ids=["2", "3-tcp"])
def test_start_again(ranks, environment):
    result = run(faulty("starts_again", ranks, environment=environment))
    assert result.code == 0, result.tail()
    assert [result.notes[rank]["left"] for rank in range(ranks)] == [[]] * ranks
