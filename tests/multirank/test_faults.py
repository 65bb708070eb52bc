"""Ranks that die, leave, raise or never come; and starting again."""

from __future__ import annotations

import contextlib
import os
import select

import pytest
from jobs import Job, run


def faulty(fault: str, ranks: int, **options) -> Job:
    options.setdefault("timeout_s", 90.0)
    return Job("faults.py", ranks, arguments=(fault,), **options)


TCP = (("FASTHVD_SHARED_MEMORY", "0"),)
PROCESSES = (("FASTHVD_LANE_HOST", "process"), ("FASTHVD_LANES", "1"))


@pytest.mark.parametrize(
    ("fault", "ranks", "environment"),
    [
        ("killed", 3, ()),
        ("killed", 3, TCP),
        ("killed", 3, PROCESSES),
        ("killed_with_a_child", 2, ()),
        ("killed_with_a_child", 2, TCP),
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
    if fault == "killed_with_a_child":
        assert result.notes[ranks]["outlived"]
    if fault == "raises":
        assert "the fault of rank 1" in result.output


def test_a_rank_that_leaves():
    result = run(faulty("leaves", 2))
    notes = result.notes[0]
    assert notes["raised at"] - result.notes[1]["killed at"] < 2.0, result.tail()
    assert "'allreduce.0'" in notes["raised"] and "rank 1" in notes["raised"], notes["raised"]


def test_missing_rank_is_named(ranks=3):
    settings = (("HOROVOD_GLOO_TIMEOUT_SECONDS", "3"),)
    result = run(faulty("missing", ranks, environment=settings))
    assert result.code not in (0, None)
    for rank in set(range(ranks)) - {1}:
        notes = result.notes[rank]
        assert f"rank 1 of {ranks} did not call tf_fasthvd.init() within 3 s" in notes["raised"]
        assert notes["after"] < 10


@pytest.mark.parametrize("fault", ["lane_killed", "lane_killed_while_idle"])
def test_all_ranks_raise_soon_after_a_lane_process_was_killed(fault, ranks=3):
    result = run(faulty(fault, ranks, environment=PROCESSES))
    lost_at = result.notes[1]["killed at"]
    for rank in range(ranks):
        notes = result.notes[rank]
        assert "raised" in notes, f"rank {rank} did not raise:\n{result.tail()}"
        assert notes["raised at"] - lost_at < 2.0
        assert notes["raised"].startswith("HorovodInternalError"), notes["raised"]
        told = "the lane process 0 of rank 1 has ended (killed by signal 9)"
        assert told in notes["raised"], notes["raised"]
        assert notes["later"] == "HorovodInternalError"


def test_no_lane_process_outlives_its_rank(ranks=2):
    environment = (*PROCESSES, ("FASTHVD_LANES", "2"))
    result = run(faulty("orphans_lanes", ranks, environment=environment))
    for rank in range(ranks):
        assert "killed at" in result.notes[rank], result.tail()
        assert len(result.notes[rank]["lanes"]) == 2
        for pid in result.notes[rank]["lanes"]:
            with contextlib.suppress(ProcessLookupError):
                ended, _, _ = select.select([os.pidfd_open(pid)], [], [], 2.0)
                assert ended, f"process {pid} is left"


def test_lane_processes_start_and_end_in_order(ranks=2):
    cpus = sorted(os.sched_getaffinity(0))
    settings = {
        "FASTHVD_LANE_HOST": "process",
        "FASTHVD_LANES": "2",
        "FASTHVD_LANE_CPUS": f"{cpus[-1]},{cpus[0]}",
    }
    result = run(faulty("lanes_in_order", ranks, environment=tuple(settings.items())))
    assert result.code == 0, result.tail()
    for rank in range(ranks):
        notes = result.notes[rank]
        for i in range(2):
            assert notes[f"titles {i}"] == [f"fasthvd-lane{k}: rank {rank}\0" for k in range(2)]
            assert notes[f"cpus {i}"] == [str(cpus[-1]), str(cpus[0])]
            assert notes[f"left {i}"] == []
    assert "did not end in order" not in result.output


@pytest.mark.parametrize(("ranks", "environment"), [(1, ()), (2, TCP)], ids=["1", "2-tcp"])
def test_without_shared_memory_lanes_stay_threads_and_rank_0_says_so(ranks, environment):
    environment = (*environment, ("FASTHVD_LANE_HOST", "process"))
    result = run(Job("launched.py", ranks, environment=environment))
    assert result.code == 0, result.tail()
    assert result.output.count("FASTHVD_LANE_HOST=process has no effect") == 1, result.tail()


@pytest.mark.parametrize(
    ("ranks", "environment"),
    [(2, ()), (3, TCP), (2, PROCESSES)],
    ids=["2", "3-tcp", "2-processes"],
)
def test_start_again(ranks, environment):
    result = run(faulty("starts_again", ranks, environment=environment))
    assert result.code == 0, result.tail()
    assert [result.notes[rank]["left"] for rank in range(ranks)] == [[]] * ranks
