"""Values of all collectives on 1 to 4 ranks, through shared memory and through TCP."""

from __future__ import annotations

from jobs import Job

_SMALL_FUSION = ("FASTHVD_FUSION_THRESHOLD", str(1 << 20))
_NO_SHARED_MEMORY = ("FASTHVD_SHARED_MEMORY", "0")

JOBS = [
    *(Job("collectives.py", n, environment=(_SMALL_FUSION,)) for n in (1, 2, 3, 4)),
    *(
        Job(
            "collectives.py",
            n,
            environment=(_SMALL_FUSION, _NO_SHARED_MEMORY),
            label=f"{n}ranks-tcp",
        )
        for n in (2, 3)
    ),
    Job(
        "collectives.py",
        4,
        options=("-H", "localhost:2,127.0.0.1:2"),
        environment=(_SMALL_FUSION,),
        label="2hosts-of-2ranks",
    ),
]


def test_values(problems):
    assert not problems
