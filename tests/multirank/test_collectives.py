"""Values of all collectives on 1 to 4 ranks, through shared memory and through TCP; some on 9."""

from __future__ import annotations

from jobs import Job

_SMALL_FUSION = ("FASTHVD_FUSION_THRESHOLD", str(1 << 20))
_NO_SHARED_MEMORY = ("FASTHVD_SHARED_MEMORY", "0")

_PROCESSES = ("FASTHVD_LANE_HOST", "process")

# Large, fused and unlike tensors, where only the way is new and not the arithmetic.
_SOME = (
    "check_large_float32",
    "check_group_of_several_dtypes",
    "check_many_tensors_in_one_function",
)

# Between hosts the ring of "tcp" runs; what may differ there is who meets whom.
_BETWEEN_HOSTS = (
    "check_queries",
    "check_large_float32",
    "check_shapes_are_kept",
    "check_broadcast",
    "check_many_tensors_in_one_function",
    "check_barrier",
)

JOBS = [
    *(Job("collectives.py", n, environment=(_SMALL_FUSION,)) for n in (1, 2, 3, 4)),
    *(
        Job(
            "collectives.py",
            n,
            arguments=arguments,
            environment=(_SMALL_FUSION, _PROCESSES),
            label=f"{n}ranks-processes",
        )
        for n, arguments in ((2, _SOME), (3, ()), (4, _SOME))
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
        arguments=_BETWEEN_HOSTS,
        options=("-H", "localhost:2,127.0.0.1:1"),
        environment=(_SMALL_FUSION,),
        label="hosts-of-2-and-1",
    ),
    # The reduction of more than 8 sources goes in several passes.
    Job("collectives.py", 9, arguments=_SOME, environment=(_SMALL_FUSION,)),
]


def test_values(problems):
    assert not problems, problems
