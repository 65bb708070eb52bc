"""Values of all collectives on 1 to 4 ranks, through shared memory and through TCP."""

from __future__ import annotations

from jobs import Job

_SMALL_FUSION = ("FASTHVD_FUSION_THRESHOLD", str(1 << 20))
_NO_SHARED_MEMORY = ("FASTHVD_SHARED_MEMORY", "0")

_PROCESSES = ("FASTHVD_LANE_HOST", "process")

JOBS = [
    *(Job("collectives.py", n, environment=(_SMALL_FUSION,)) for n in (1, 2, 3, 4)),
    *(
        Job(
            "collectives.py",
            n,
            environment=(_SMALL_FUSION, _PROCESSES),
            label=f"{n}ranks-processes",
        )
        for n in (2, 3, 4)
    ),
    Job(
        "collectives.py",
        3,
        environment=(_SMALL_FUSION, _NO_SHARED_MEMORY),
        label="3ranks-tcp",
    ),
    Job(
        "collectives.py",
        3,
        options=("-H", "localhost:2,127.0.0.1:1"),
        environment=(_SMALL_FUSION,),
        label="hosts-of-2-and-1",
    ),
]


def test_values(problems):
    assert not problems, problems
