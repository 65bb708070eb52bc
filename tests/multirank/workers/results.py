"""The memory of large results: recycled, and never under a result that is still in use."""

from __future__ import annotations

import os
import resource
import threading

import checks
import numpy as np
import tensorflow as tf

import tf_fasthvd as hvd

LARGE = 10 << 20  # In floats 40 MiB: more than the C library ever recycles.


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def total(value: int) -> int:
    """The sum over the ranks of the rank's number plus `value`."""
    return sum(rank + value for rank in range(hvd.size()))


def reduce(value: int, count: int = LARGE) -> tf.Tensor:
    """The sum of tensors that the caller keeps, so that the result needs memory of its own."""
    own = tf.fill([count], np.float32(hvd.rank() + value))
    return hvd.allreduce(own, op=hvd.Sum, name=f"results.{count}")


def assert_all(result: tf.Tensor, value: int) -> None:
    assert np.all(result.numpy() == value)


def check_repeated_results_cost_no_page_faults() -> None:
    @tf.function(input_signature=[tf.TensorSpec([LARGE], tf.float32)])
    def call(own: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(own, op=hvd.Sum, name="results.faults")

    own = tf.fill([LARGE], np.float32(hvd.rank() + 1))
    for _ in range(3):
        result = call(own)
    before = page_faults()
    for _ in range(10):
        result = call(own)
    # Fresh memory takes 20 huge pages a call, or 10240 small ones.
    assert page_faults() - before < 100, page_faults() - before
    assert_all(result, total(1))


def check_results_in_use_are_left_alone() -> None:
    kept = [reduce(value) for value in range(4)]
    del kept[1]
    later = [reduce(10 + value) for value in range(3)]
    for value, result in zip((0, 2, 3), kept, strict=True):
        assert_all(result, total(value))
    for value, result in enumerate(later):
        assert_all(result, total(10 + value))


def check_sizes_just_off() -> None:
    """Blocks of one size serve others that are a little smaller."""
    for count in (LARGE, LARGE - 1, LARGE - 4096, LARGE + 1, LARGE // 2, 1 << 18, (1 << 18) - 1):
        assert_all(reduce(count % 97, count), total(count % 97))


def check_threads_drop_results() -> None:
    """Results die on any thread while others are made."""

    def use(name: str) -> None:
        for value in range(5):
            own = tf.fill([1 << 20], np.float32(hvd.rank() + value))
            if not np.all(hvd.allreduce(own, op=hvd.Sum, name=name).numpy() == total(value)):
                wrong.append((name, value))

    wrong: list[tuple[str, int]] = []
    threads = [threading.Thread(target=use, args=(f"results.{index}",)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def check_a_forked_child_drops_results() -> None:
    results = [reduce(3), reduce(4)]
    expected = total(4)
    child = os.fork()
    if child == 0:
        same = False
        try:
            same = bool(np.all(results.pop().numpy() == expected))  # Gives its memory back.
        finally:
            os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert_all(results[0], total(3))
    assert_all(results[1], total(4))


def check_results_outlive_the_runtime() -> None:
    kept = reduce(5)
    hvd.shutdown()
    assert_all(kept, sum(rank + 5 for rank in range(int(os.environ["HOROVOD_SIZE"]))))
    dropped = kept
    hvd.init()
    again = reduce(6)
    assert_all(dropped, total(5))
    assert_all(again, total(6))


if __name__ == "__main__":
    checks.run_all(globals())
