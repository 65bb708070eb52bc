"""Tensors above 2 GiB."""

from __future__ import annotations

import checks
import tensorflow as tf

import tf_fasthvd as hvd

INT8 = tf.int8, (2 << 30) + 1_000_003
FLOAT32 = tf.float32, (2 << 28) + 1_003


def assert_all(result: tf.Tensor, count: int, value: int) -> None:
    assert result.shape == [count]
    assert int(tf.reduce_min(result)) == int(tf.reduce_max(result)) == value


def check_more_than_2_gib() -> None:
    total = sum(range(1, hvd.size() + 1))
    for dtype, count in (FLOAT32, INT8):
        own = tf.fill([count], tf.cast(hvd.rank() + 1, dtype))
        assert_all(hvd.allreduce(own, op=hvd.Sum), count, total)
    assert_all(hvd.broadcast(own, 1), count, 2)


if __name__ == "__main__":
    checks.run_all(globals())
