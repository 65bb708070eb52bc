"""Gradients of all collectives, against what follows by hand for a loss that depends on the rank.

Each rank's loss is the sum of weights (another vector on every rank) times the result, and G is
the sum of the weights of all ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import checks
import numpy as np
import tensorflow as tf

import tf_fasthvd as hvd

N = 5


def weights(rank: int) -> np.ndarray:
    return np.arange(1.0, N + 1) + 10.0 * rank


def total_weights() -> np.ndarray:
    return sum(weights(rank) for rank in range(hvd.size()))


def gradient(function: Callable[[tf.Tensor], tf.Tensor], own: np.ndarray) -> list[np.ndarray]:
    """The gradient of this rank's loss: eager, and in a function."""

    def compute(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(tf.cast(weights(hvd.rank()), y.dtype) * y)
        return tape.gradient(loss, x)

    x = tf.constant(own)
    return [compute(x).numpy(), tf.function(compute)(x).numpy()]


def assert_gradients(
    function: Callable[[tf.Tensor], tf.Tensor], own: np.ndarray, expected: np.ndarray
) -> None:
    for dtype, tolerance in (
        (np.float32, 1e-5),
        (np.float64, 1e-12),
        (np.float16, 5e-3),
        (tf.bfloat16.as_numpy_dtype, 3e-2),
    ):
        for actual in gradient(function, own.astype(dtype)):
            assert actual.dtype == dtype
            np.testing.assert_allclose(
                actual.astype(np.float64), expected, tolerance, tolerance * 10
            )


def check_sum() -> None:
    assert_gradients(lambda x: hvd.allreduce(x, op=hvd.Sum), np.ones(N), total_weights())


def check_average() -> None:
    assert_gradients(hvd.allreduce, np.ones(N), total_weights() / hvd.size())


def check_factors() -> None:
    def scaled(x: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.3, postscale_factor=7.0)

    assert_gradients(scaled, np.ones(N), 2.1 * total_weights())

    def scaled_maximum(x: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(x, op=hvd.Max, prescale_factor=0.5, postscale_factor=3.0)

    expected = 1.5 * total_weights() * (hvd.rank() == hvd.size() - 1)
    assert_gradients(scaled_maximum, np.full(N, hvd.rank() + 1.0), expected)


def check_compression() -> None:
    def compressed(x: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.bf16)

    for actual in gradient(compressed, np.ones(N, np.float32)):
        np.testing.assert_allclose(actual, total_weights(), 1e-2)


def check_minimum_and_maximum() -> None:
    last = hvd.size() - 1
    # Column 0: the highest rank has the maximum; 1: rank 0 has it; 2, 3, 4: all share it.
    columns = [hvd.rank(), -hvd.rank(), 2.0, 0.0, -1.0]
    own = np.array(columns, np.float64)
    holds = np.array([hvd.rank() == last, hvd.rank() == 0, *[1 / hvd.size()] * 3])
    assert_gradients(lambda x: hvd.allreduce(x, op=hvd.Max), own, holds * total_weights())
    holds = np.array([hvd.rank() == 0, hvd.rank() == last, *[1 / hvd.size()] * 3])
    assert_gradients(lambda x: hvd.allreduce(x, op=hvd.Min), own, holds * total_weights())


def check_product_with_zeros() -> None:
    table = np.array([[2.0 + rank, 0.5, -1.0, rank, 0.0] for rank in range(hvd.size())])
    # Column 3 has a zero on rank 0, column 4 on every rank.
    others = np.array([np.prod(np.delete(table[:, column], hvd.rank())) for column in range(N)])
    assert_gradients(
        lambda x: hvd.allreduce(x, op=hvd.Product), table[hvd.rank()], others * total_weights()
    )


def check_group() -> None:
    @tf.function
    def compute(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            results = hvd.grouped_allreduce([x, y, 2.0 * x], op=hvd.Sum)
            # The second result is not used.
            loss = tf.reduce_sum(results[0] * weights(hvd.rank())) + tf.reduce_sum(results[2])
        return tape.gradient(loss, [x, y], unconnected_gradients=tf.UnconnectedGradients.ZERO)

    dx, dy = compute(tf.ones([N], tf.float64), tf.ones([3], tf.float64))
    np.testing.assert_allclose(dx, total_weights() + 2.0 * hvd.size())
    np.testing.assert_array_equal(dy, np.zeros(3))


def check_broadcast() -> None:
    root = hvd.size() - 1
    expected = total_weights() * (hvd.rank() == root)
    assert_gradients(lambda x: hvd.broadcast(x, root), np.ones(N), expected)


def check_nested_and_second_order() -> None:
    def second_derivative(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(hvd.allreduce(x, op=hvd.Sum) ** 3)
            first = inner.gradient(y, x)
        return outer.gradient(first, x)

    # y = s^3 on each rank; first = size * 3 s^2; the sum over ranks of first by x: size^2 * 6 s.
    n = hvd.size()
    for compute in (second_derivative, tf.function(second_derivative)):
        result = compute(tf.constant([1.0, 2.0], tf.float64))
        np.testing.assert_allclose(result, [6.0 * n**3, 12.0 * n**3])


def check_persistent_tape() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = hvd.allreduce(x, op=hvd.Sum)
        z = y * y
    for target, expected in ((y, [1.0, 1.0]), (z, [2.0 * hvd.size(), 4.0 * hvd.size()])):
        np.testing.assert_allclose(tape.gradient(target, x), np.array(expected) * hvd.size())


if __name__ == "__main__":
    checks.run_all(globals())
