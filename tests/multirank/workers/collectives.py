"""Values of all collectives, against NumPy. Any number of ranks, one host or several."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

import checks
import keras
import numpy as np
import tensorflow as tf

import tf_fasthvd as hvd
from tf_fasthvd import _agreement

CHUNK_BYTES = 256 << 10
FUSION_BYTES = 1 << 20  # The job sets FASTHVD_FUSION_THRESHOLD so.

DTYPES = (
    *(tf.uint8, tf.int8, tf.uint16, tf.int16, tf.uint32, tf.int32, tf.uint64, tf.int64),
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.bool),
)
REDUCTIONS = [hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product]


def sizes(dtype: tf.DType) -> list[int]:
    """Numbers of elements around the limits of the runtime."""
    chunk = CHUNK_BYTES // dtype.size
    above_fusion = FUSION_BYTES // dtype.size + 3
    return [0, 1, 7, 1023, chunk - 1, chunk, chunk + 1, 3 * chunk, above_fusion]


def values(dtype: tf.DType, count: int, rank: int) -> np.ndarray:
    """What `rank` hands in: every rank knows it of all."""
    rng = np.random.default_rng([rank, count, dtype.as_datatype_enum])
    if dtype == tf.bool:
        return rng.random(count) < 0.5
    if dtype.is_floating:
        return rng.uniform(-2.0, 2.0, count).astype(dtype.as_numpy_dtype)
    low = 0 if dtype.is_unsigned else -100
    return rng.integers(low, 100, count).astype(dtype.as_numpy_dtype)


def reduced(op: hvd.ReduceOp, parts: list[np.ndarray]) -> np.ndarray:
    """The reduction in rank order; 16-bit floats in 32 bits, rounded once."""
    dtype = parts[0].dtype
    if dtype == np.bool_:
        combine = np.logical_or if op in (hvd.Sum, hvd.Max) else np.logical_and
        return combine.reduce(parts)
    if tf.as_dtype(dtype).is_floating and dtype.itemsize == 2:
        parts = [part.astype(np.float32) for part in parts]
    function = {hvd.Min: np.minimum, hvd.Max: np.maximum, hvd.Product: np.multiply}.get(op, np.add)
    if op is hvd.Average and not tf.as_dtype(dtype).is_floating:
        wide = np.uint64 if np.issubdtype(dtype, np.unsignedinteger) else np.int64
        total = sum(part.astype(wide) for part in parts)
        return (np.sign(total) * (np.abs(total) // wide(len(parts)))).astype(dtype)
    total = parts[0]
    with np.errstate(over="ignore"):
        for part in parts[1:]:
            total = function(total, part)
    if op is hvd.Average:
        total = total / total.dtype.type(len(parts))
    return total.astype(dtype)


def assert_equal(actual: np.ndarray, expected: np.ndarray, what: str, ordered: bool) -> None:
    """Exact, but for floats on several hosts, where the order of the ranks is another."""
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} is not {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: {actual.shape} is not {expected.shape}"
    if ordered or not tf.as_dtype(expected.dtype).is_floating:
        np.testing.assert_array_equal(actual, expected, what)
        return
    wide = np.float64
    precision = {2: 2e-2, 4: 1e-5, 8: 1e-13}[expected.dtype.itemsize]
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), precision, precision, err_msg=what
    )


def assert_same_bits(arrays: list[np.ndarray]) -> None:
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    assert len(_agreement.texts_of_ranks(digest, "same bits")) == 1, "ranks have different bits"


def sums_in_rank_order() -> bool:
    """Whether the result is NumPy's to the bit: where all ranks share memory."""
    one_host = hvd.local_size() == hvd.size()
    return one_host and os.environ.get("FASTHVD_SHARED_MEMORY") != "0"


def check_allreduce_dtype_op_size() -> None:
    problems = []
    for dtype in DTYPES:
        ops = [op for op in REDUCTIONS if dtype != tf.bool or op is not hvd.Average]
        parts = [[values(dtype, n, rank) for rank in range(hvd.size())] for n in sizes(dtype)]
        own = [tf.constant(part[hvd.rank()]) for part in parts]
        expected = {op: [reduced(op, part) for part in parts] for op in ops}
        some = [3, 6, 7]  # Positions of sizes; tracing all takes long.

        @tf.function(autograph=False)
        def compiled(own: list[tf.Tensor], ops: list[hvd.ReduceOp] = ops) -> list[list[tf.Tensor]]:
            return [[hvd.allreduce(tensor, op=op) for tensor in own] for op in ops]

        in_function = compiled([own[i] for i in some])
        cases = []
        for number, op in enumerate(ops):
            eager = [hvd.allreduce(tensor, op=op) for tensor in own]
            results = [*eager, *hvd.grouped_allreduce(own, op=op), *in_function[number]]
            right = [*expected[op], *expected[op], *(expected[op][i] for i in some)]
            cases += [(op, *pair) for pair in zip(results, right, strict=True)]
            assert_same_bits([result.numpy() for result in eager])
        for op, result, right in cases:
            try:
                assert_equal(result.numpy(), right, f"{dtype.name} {op.name}", sums_in_rank_order())
            except AssertionError as error:
                problems.append(str(error))
    assert not problems, "\n".join(problems[:20])


def check_large_float32() -> None:
    count = (40 << 20) // 4 + 5
    own = np.full(count, hvd.rank() + 1.0, np.float32)
    result = hvd.allreduce(own, op=hvd.Sum).numpy()
    np.testing.assert_array_equal(result, np.full(count, sum(range(1, hvd.size() + 1)), np.float32))


def check_shapes_are_kept() -> None:
    for shape in [(), (1,), (0, 3), (2, 3), (1, 2, 3, 4), (5, 0)]:
        own = np.full(shape, hvd.rank(), np.float32)
        total = sum(range(hvd.size()))
        np.testing.assert_array_equal(
            hvd.allreduce(own, op=hvd.Sum).numpy(), np.full(shape, total, np.float32)
        )
        np.testing.assert_array_equal(hvd.broadcast(own, 0).numpy(), np.zeros(shape, np.float32))


def check_static_shapes_in_functions() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def reduce(x: tf.Tensor) -> tf.Tensor:
        result = hvd.allreduce(x, op=hvd.Sum)
        assert result.shape.as_list() == [None, 3]
        return result

    for rows in (1, 4, 0):
        np.testing.assert_array_equal(reduce(tf.ones([rows, 3])), np.full([rows, 3], hvd.size()))


def check_inputs_of_all_kinds() -> None:
    total = float(sum(range(hvd.size())))
    rank = float(hvd.rank())
    slices = tf.IndexedSlices(
        tf.constant([[rank], [1.0]]), tf.constant([2, 0]), tf.constant([3, 1])
    )
    for own in (rank, np.float32(rank), [rank], tf.Variable(rank), keras.Variable(rank)):
        result = hvd.allreduce(own, op=hvd.Sum)
        np.testing.assert_array_equal(np.ravel(result), [total])
    np.testing.assert_array_equal(hvd.allreduce(slices, op=hvd.Sum), [[hvd.size()], [0.0], [total]])


def check_group_of_dense_and_sparse() -> None:
    """Row ids differ between the ranks, repeat, and are all the same as in calls of their own."""
    rank, n = hvd.rank(), hvd.size()
    rows = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32) * (rank + 1)
    own = [
        tf.constant([[5.0 + rank]]),
        tf.IndexedSlices(tf.constant(rows), tf.constant([0, rank % 3]), tf.constant([3, 2])),
        tf.IndexedSlices(tf.constant(rows), tf.constant([2, 2]), tf.constant([4, 2])),
    ]
    first, second = np.zeros((n, 3, 2)), np.zeros((n, 4, 2))
    for r in range(n):
        first[r, 0] += np.array([1.0, 2.0]) * (r + 1)
        first[r, r % 3] += np.array([3.0, 4.0]) * (r + 1)
        second[r, 2] = np.array([4.0, 6.0]) * (r + 1)
    sums = [[[5.0 * n + sum(range(n))]], first.sum(0), second.sum(0)]
    for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1.0 / n)):
        alone = [hvd.allreduce(tensor, op=op) for tensor in own]
        for results in (
            hvd.grouped_allreduce(own, op=op),
            tf.function(lambda own, op=op: hvd.grouped_allreduce(own, op=op))(own),
            alone,
        ):
            for result, expected in zip(results, sums, strict=True):
                np.testing.assert_allclose(result, np.array(expected) * factor, 1e-6)


def check_keras_flavour() -> None:
    from tf_fasthvd import keras as hvd_keras

    result = hvd_keras.allreduce(2.0 * hvd.rank() + 1.0)
    assert isinstance(result, (np.ndarray, np.floating))
    assert result == hvd.size(), result
    assert hvd_keras.broadcast(hvd.rank() + 5, 0) == 5


def check_factors() -> None:
    for dtype, tolerance in ((tf.float16, 2e-3), (tf.float32, 1e-6), (tf.float64, 1e-14)):
        for op in REDUCTIONS:
            parts = [values(dtype, 1000, r) for r in range(hvd.size())]
            own = parts[hvd.rank()]
            wide = [part.astype(np.float64) for part in parts]
            for before, after in ((0.1, 1.0), (1.0, 1 / 3), (0.1, 1 / 3), (2.0, 0.25)):
                expected = reduced(op, [part * before for part in wide]) * after
                result = hvd.allreduce(
                    own, op=op, prescale_factor=before, postscale_factor=after
                ).numpy()
                np.testing.assert_allclose(
                    result.astype(np.float64),
                    expected,
                    tolerance * 10,
                    tolerance * 10,
                    err_msg=f"{dtype.name} {op} {before} {after}",
                )
    result = hvd.allreduce(np.int32(10), op=hvd.Sum, prescale_factor=0.5)
    assert int(result) == 5 * hvd.size()
    result = hvd.allreduce(np.int64(2**53 + 10), op=hvd.Max, postscale_factor=1.0)
    assert int(result) == 2**53 + 10


def check_average_of_large_fp16() -> None:
    for dtype in (np.float16, tf.bfloat16.as_numpy_dtype):
        result = hvd.allreduce(np.full(3, 60000, dtype)).numpy()
        np.testing.assert_array_equal(result, np.full(3, 60000, dtype))


@checks.needs(2)
def check_compression() -> None:
    own = np.array([1.0 + 2**-9, hvd.rank(), 3.0], np.float32)
    for compression, first in ((hvd.Compression.fp16, own[0]), (hvd.Compression.bf16, 1.0)):
        for dtype in (np.float32, np.float64):
            result = hvd.allreduce(own.astype(dtype), compression=compression).numpy()
            assert result.dtype == dtype
            np.testing.assert_allclose(result, [first, (hvd.size() - 1) / 2, 3.0], 4e-3)


def check_old_argument_average() -> None:
    assert float(hvd.allreduce(1.0, average=False)) == hvd.size()
    assert float(hvd.allreduce(1.0, average=True)) == 1.0
    try:
        hvd.allreduce(1.0, average=True, op=hvd.Sum)
    except ValueError:
        return
    raise AssertionError("both arguments were taken")


def check_group_of_several_dtypes() -> None:
    own = [
        tf.constant([1.0, 2.0]),
        tf.constant(3, tf.int32),
        tf.constant([4.0], tf.float64),
        tf.zeros([0, 2]),
        tf.constant([5.0]),
    ]
    for reduce in (hvd.grouped_allreduce, tf.function(hvd.grouped_allreduce)):
        results = reduce(own, op=hvd.Sum)
        for result, tensor in zip(results, own, strict=True):
            assert result.dtype == tensor.dtype
            np.testing.assert_array_equal(result, tensor.numpy() * hvd.size())
    assert hvd.grouped_allreduce([], op=hvd.Sum) == []


def check_broadcast() -> None:
    for dtype in DTYPES:
        root = dtype.as_datatype_enum % hvd.size()
        own = [tf.constant(values(dtype, n, hvd.rank())) for n in sizes(dtype)]

        @tf.function(autograph=False)
        def compiled(own: list[tf.Tensor], root: int = root) -> list[tf.Tensor]:
            return [hvd.broadcast(tensor, root) for tensor in own]

        results = [hvd.broadcast(tensor, root) for tensor in own] + compiled(own[-3:])
        for result, count in zip(results, sizes(dtype) + sizes(dtype)[-3:], strict=True):
            expected = values(dtype, count, root)
            np.testing.assert_array_equal(result, expected, f"{dtype.name} {count}")


def check_many_tensors_in_one_function() -> None:
    rng = np.random.default_rng(1)
    shapes = [int(rng.choice([1, 10, 1000, 40_000, 300_000])) for _ in range(160)]
    own = [tf.fill([n], float(hvd.rank() + i)) for i, n in enumerate(shapes)]

    @tf.function
    def reduce(own: list[tf.Tensor]) -> list[tf.Tensor]:
        return [hvd.allreduce(tensor, op=hvd.Sum) for tensor in own]

    total = sum(range(hvd.size()))
    for _ in range(3):
        for i, result in enumerate(reduce(own)):
            expected = np.full(shapes[i], total + hvd.size() * i, np.float32)
            np.testing.assert_array_equal(result, expected)


def check_control_flow() -> None:
    @tf.function
    def loop(x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(20):
            x = hvd.allreduce(x) if tf.reduce_sum(x) > 0 else hvd.allreduce(x, op=hvd.Max)
        return x

    mean = (hvd.size() + 1) / 2
    np.testing.assert_allclose(loop(tf.constant([hvd.rank() + 1.0])), [mean], 1e-6)


def check_independent_iterations() -> None:
    """A loop whose iterations do not depend on each other: one name, many at a time."""

    @tf.function
    def loop() -> tf.Tensor:
        results = tf.TensorArray(tf.float32, 30)
        for i in tf.range(30):
            own = tf.cast(i, tf.float32) * tf.ones([1000])
            results = results.write(i, hvd.allreduce(own, op=hvd.Sum)[0])
        return results.stack()

    np.testing.assert_array_equal(loop(), np.arange(30) * hvd.size())


def check_same_name_with_other_shapes() -> None:
    for count in (1, 5, 2, 5):
        result = hvd.allreduce(np.ones(count, np.float32), op=hvd.Sum, name="changing")
        np.testing.assert_array_equal(result, np.full(count, hvd.size()))


def check_names_twice_in_a_graph() -> None:
    @tf.function
    def reduce(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return (
            hvd.allreduce(x, op=hvd.Sum, name="twice"),
            hvd.allreduce(2.0 * x, op=hvd.Sum, name="twice"),
            hvd.allreduce(3.0 * x, op=hvd.Sum, name="twice", ignore_name_scope=True),
        )

    np.testing.assert_array_equal(reduce(tf.constant(1.0)), np.arange(1, 4) * hvd.size())


def check_old_graphs_and_sessions() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [2])
        y = hvd.allreduce(x, op=hvd.Sum)
        v = tf.compat.v1.get_variable("v", initializer=float(hvd.rank()), use_resource=True)
        synchronise = hvd.broadcast_variables([v], 0)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            np.testing.assert_array_equal(
                session.run(y, {x: [1, 2]}), np.array([1, 2]) * hvd.size()
            )
        session.run(synchronise)
        assert session.run(v) == 0.0


def in_threads(functions: list[Callable[[], None]]) -> None:
    errors = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[f]) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def check_threads_in_different_orders() -> None:
    """Eight named reductions at a time, started in another order by each rank."""

    def reduce(i: int) -> None:
        for step in range(20):
            result = hvd.allreduce(np.full(100, i + step, np.float32), op=hvd.Sum, name=f"t{i}")
            np.testing.assert_array_equal(result, np.full(100, (i + step) * hvd.size()))

    order = np.random.default_rng(hvd.rank()).permutation(8)
    in_threads([lambda i=int(i): reduce(i) for i in order])


def check_barrier() -> None:
    hvd.barrier()
    hvd.barrier(name="mine")

    @tf.function
    def twice() -> tf.Tensor:
        hvd.barrier()
        hvd.barrier()
        return tf.constant(1)

    assert int(twice()) == 1


def check_a_forked_child() -> None:
    """It is refused, ends by itself, and the rank goes on: data loaders fork."""
    rank = hvd.rank()
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: hvd.allreduce(1.0, name="forked"), hvd.barrier, hvd.rank, hvd.init):
            try:
                call()
            except ValueError as error:
                refused += f"rank {rank} has forked" in str(error) and "spawn" in str(error)
        hvd.shutdown()
        sys.exit(40 + refused)  # An end like any script's: it gets to no other check.
    ended, _, _ = select.select([os.pidfd_open(child)], [], [], 30.0)
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 44
    assert int(hvd.allreduce(1, op=hvd.Sum)) == hvd.size()


def check_idle_ranks_use_no_cpu() -> None:
    hvd.barrier()
    time.sleep(0.2)
    before = time.process_time()
    time.sleep(1.0)
    used = time.process_time() - before
    hvd.barrier()
    assert used < 0.05, f"{used} CPU seconds in one second"


@checks.needs(2)
def check_waiting_for_a_late_rank_uses_no_cpu() -> None:
    """Also with more ranks than cores, which those that wait would take from those that work."""
    own = np.ones(1 << 20, np.float32)
    hvd.allreduce(own, op=hvd.Sum)
    if hvd.rank() == 0:
        time.sleep(1.0)
    before = time.process_time()
    hvd.allreduce(own, op=hvd.Sum)
    used = time.process_time() - before
    assert used < 0.2, f"{used} CPU seconds in one second"


def check_queries() -> None:
    assert int(hvd.rank_op()) == hvd.rank()
    assert int(tf.function(hvd.size_op)()) == hvd.size()
    assert int(hvd.local_rank_op()) == hvd.local_rank()
    assert int(hvd.local_size_op()) == hvd.local_size()
    assert int(hvd.process_set_included_op()) == 1
    assert hvd.is_initialized()
    assert hvd.global_process_set.size() == hvd.size()
    assert hvd.global_process_set.rank() == hvd.rank()
    assert hvd.global_process_set.included()


def check_memory_of_its_own() -> None:
    from tf_fasthvd._loader import load

    assert 0 <= load().c.fasthvd_buffer_bytes() <= 64 << 20


def check_broadcast_variables() -> None:
    def make(value: float) -> list:
        return [
            tf.Variable([value, value]),
            keras.Variable(np.full([3], value), dtype="float32"),
            tf.Variable(int(value), dtype=tf.int64),
            tf.Variable(value > 1, dtype=tf.bool),
            tf.Variable(np.uint32([int(value)])),
            tf.Variable(tf.zeros([0])),
            tf.Variable(tf.fill([1000], tf.cast(value, tf.bfloat16))),
        ]

    root = hvd.size() - 1
    expected = make(root + 1.0)
    for broadcast in (hvd.broadcast_variables, hvd.broadcast_):
        own = make(hvd.rank() + 1.0)
        broadcast(own, root_rank=root)
        for variable, right in zip(own, expected, strict=True):
            np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), right.numpy())
    own = make(hvd.rank() + 1.0)

    @tf.function
    def in_function() -> None:
        hvd.broadcast_variables(own, root)

    in_function()
    np.testing.assert_array_equal(own[0].numpy(), expected[0].numpy())
    hvd.broadcast_variables([], 0)


def check_big_variables_go_in_groups() -> None:
    own = [tf.Variable(tf.fill([5 << 20], float(hvd.rank() + i))) for i in range(4)]
    hvd.broadcast_variables(own, 0)
    for i, variable in enumerate(own):
        np.testing.assert_array_equal(variable[:3], np.full(3, float(i)))
        np.testing.assert_array_equal(variable[-3:], np.full(3, float(i)))


if __name__ == "__main__":
    checks.run_all(globals())
