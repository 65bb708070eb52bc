"""The speed to reach, as ratios against the best Horovod of the same run.

The figures hold for one host with two cores, with its cores free for the benchmark.
"""

from __future__ import annotations

# At least so many times faster than the best peer: work -> ranks -> ratio.
LATENCY_RATIO: dict[str, dict[int, float]] = {
    "4KiB": {2: 5.0, 4: 3.0},
    "1MiB": {2: 5.0, 4: 3.0},
    "16MiB": {2: 3.0, 4: 2.7},
    "64MiB": {2: 3.2, 4: 3.3},
    "mixed": {2: 3.5, 4: 3.5},
}

# At most this part of the most frugal peer's CPU time: work -> ratio, for all numbers of ranks.
CPU_RATIO: dict[str, float] = {"16MiB": 0.7, "64MiB": 0.7}

TARGET_CORES = 2
