"""One rank of the allreduce benchmark, for tf_fasthvd and for stock Horovod alike.

Started by a launcher on every rank. For each work it checks the result, then calls a tf.function
that does nothing but allreduce its arguments, again and again. Nothing separates the repetitions,
so the ranks start each one together as far as the allreduce itself keeps them together. Rank 0
appends one JSON line a work to --output:

    seconds           the time of each repetition on rank 0 (a list)
    cpu_seconds       user and system time of all ranks, their threads and their child processes,
                      over all repetitions together
    nbytes            the bytes of the tensors on one rank

The arguments are eager tensors that the caller keeps, so no result can take its input's memory.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags
from works import WORKS, Work

_MODULE = flags.DEFINE_enum(
    "module",
    "tf_fasthvd",
    ["tf_fasthvd", "horovod.tensorflow"],
    "The package to measure.",
)
_WORKS = flags.DEFINE_list("works", list(WORKS), "The works to run, in this order.")
_SECONDS = flags.DEFINE_float("seconds", 1.2, "About how long to measure each work.", 0.0)
_OUTPUT = flags.DEFINE_string("output", None, "The file to which rank 0 appends.", required=True)
_THREADS = flags.DEFINE_integer(
    "tf_threads", os.cpu_count(), "TensorFlow's intra-op and inter-op threads, each.", 1
)

_WARM_UP_CALLS = 3
_CALIBRATION_CALLS = 3
_MIN_REPETITIONS = 7
_MAX_REPETITIONS = 5000
_PERIOD = 251  # the inputs repeat after this many elements: a prime, so no slice looks like another

Reduce = Callable[..., list[tf.Tensor]]


def make_reduce(hvd: Any, work: Work) -> Reduce:
    """Returns a compiled tf.function that sums each of its arguments over the ranks."""

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32) for shape in work.shapes])
    def reduce(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return [
            hvd.allreduce(tensor, op=hvd.Sum, name=f"bench.{work.name}.{index}")
            for index, tensor in enumerate(tensors)
        ]

    return reduce.get_concrete_function()


def pattern(shape: tuple[int, ...], shift: int) -> np.ndarray:
    """Returns small whole numbers, whose sums over ranks are exact in float32."""
    count = int(np.prod(shape))
    repeated = np.tile(np.arange(_PERIOD, dtype=np.float32), count // _PERIOD + 2)
    start = shift % _PERIOD
    return repeated[start : start + count].reshape(shape)


def check(hvd: Any, work: Work, results: list[tf.Tensor]) -> None:
    """Raises ValueError unless every result is the sum over the ranks, to the bit."""
    weight = sum(rank + 1 for rank in range(hvd.size()))
    for index, (shape, result) in enumerate(zip(work.shapes, results, strict=True)):
        if not np.array_equal(result.numpy(), weight * pattern(shape, index)):
            raise ValueError(f"{work.name}: tensor {index} is wrong on rank {hvd.rank()}")


def cpu_seconds() -> float:
    """Returns the user and system time of this process and its living descendants so far.

    A package may move its tensors in processes of its own, whose time counts too.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    total = usage.ru_utime + usage.ru_stime
    ticks_per_second = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The second field, the command in parentheses, may hold spaces and parentheses.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        times[pid] = (int(fields[11]) + int(fields[12])) / ticks_per_second
    generation = {os.getpid()}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        total += sum(times[pid] for pid in generation)
    return total


def sum_over_ranks(hvd: Any, value: float, name: str) -> float:
    """Returns the sum of the ranks' values; the ranks leave this call nearly together."""
    return float(hvd.allreduce(tf.constant([value], tf.float64), op=hvd.Sum, name=name)[0])


def measure(hvd: Any, work: Work) -> dict[str, Any]:
    """Runs one work on this rank; the record is complete on every rank, with its own seconds."""
    reduce = make_reduce(hvd, work)
    tensors = [
        tf.constant((hvd.rank() + 1) * pattern(shape, index))
        for index, shape in enumerate(work.shapes)
    ]
    check(hvd, work, reduce(*tensors))
    for _ in range(_WARM_UP_CALLS):
        reduce(*tensors)
    start = time.perf_counter()
    for _ in range(_CALIBRATION_CALLS):
        reduce(*tensors)
    elapsed = (time.perf_counter() - start) / _CALIBRATION_CALLS
    # All ranks must agree on the count.
    expected = sum_over_ranks(hvd, elapsed, f"expected.{work.name}") / hvd.size()
    repetitions = max(_MIN_REPETITIONS, min(_MAX_REPETITIONS, round(_SECONDS.value / expected)))

    seconds = []
    cpu_before = cpu_seconds()
    sum_over_ranks(hvd, 0.0, f"start.{work.name}")
    for _ in range(repetitions):
        start = time.perf_counter()
        reduce(*tensors)
        seconds.append(time.perf_counter() - start)
    cpu = cpu_seconds() - cpu_before

    cpu_all_ranks = sum_over_ranks(hvd, cpu, f"cpu.{work.name}")
    check(hvd, work, reduce(*tensors))
    return {
        "work": work.name,
        "ranks": hvd.size(),
        "nbytes": work.nbytes,
        "seconds": seconds,
        "cpu_seconds": cpu_all_ranks,
    }


def main(_: list[str]) -> None:
    """Measures the works that the flags name."""
    tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
    tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
    hvd = importlib.import_module(_MODULE.value)
    hvd.init()
    for name in _WORKS.value:
        record = measure(hvd, WORKS[name])
        if hvd.rank() == 0:
            with open(_OUTPUT.value, "a", encoding="utf-8") as output:
                print(json.dumps(record), file=output)
    hvd.shutdown()


if __name__ == "__main__":
    app.run(main)
