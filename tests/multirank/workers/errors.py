"""Wrong input: every rank gets an error that names tensor and ranks, and the job goes on."""

from __future__ import annotations

import threading
import time

import checks
import numpy as np
import tensorflow as tf

import tf_fasthvd as hvd

InvalidArgument = tf.errors.InvalidArgumentError


def assert_works() -> None:
    """The runtime is as good as before."""
    result = hvd.allreduce(np.full(1000, hvd.rank(), np.float32), op=hvd.Sum, name="works")
    np.testing.assert_array_equal(result, np.full(1000, sum(range(hvd.size()))))


def assert_refused(call, *words: str) -> None:
    """`call` raises an error with all `words`, soon, and the next collective is right."""
    start = time.monotonic()
    try:
        call()
    except InvalidArgument as error:
        missing = [word for word in words if word not in error.message]
        assert not missing, f"{missing} not in: {error.message}"
    else:
        raise AssertionError("it was taken")
    assert time.monotonic() - start < 5
    assert_works()


def other(first, rest):
    """`first` on rank 0, `rest` on the others."""
    return first if hvd.rank() == 0 else rest


@checks.needs(2)
def check_shapes_differ() -> None:
    shape = other([2, 3], [3, 2])
    for _ in range(2):
        assert_refused(
            lambda: hvd.allreduce(tf.ones(shape), name="weights"),
            *("weights", "[2, 3]", "[3, 2]", "rank 0"),
        )
    assert_refused(
        lambda: hvd.broadcast(tf.ones(shape), 0, name="bias"), "bias", "[2, 3]", "[3, 2]"
    )


@checks.needs(2)
def check_shape_differs_from_the_time_before() -> None:
    for _ in range(3):
        hvd.allreduce(tf.ones([4]), name="known")
    assert_refused(
        lambda: hvd.allreduce(tf.ones(other([4], [5])), name="known"), "known", "[4]", "[5]"
    )
    for shape in ([5], [4]):
        np.testing.assert_array_equal(hvd.allreduce(tf.ones(shape), name="known"), np.ones(shape))


@checks.needs(2)
def check_dtypes_differ() -> None:
    dtype = other(tf.float32, tf.int32)
    assert_refused(
        lambda: hvd.allreduce(tf.ones([2], dtype), name="x"), "'x'", "float32", "int32", "rank 0"
    )


@checks.needs(2)
def check_ops_differ() -> None:
    op = other(hvd.Sum, hvd.Max)
    assert_refused(lambda: hvd.allreduce([1.0], op=op, name="x"), "'x'", "Sum", "Max", "rank 0")


@checks.needs(2)
def check_factors_differ() -> None:
    factor = other(0.5, 0.25)
    assert_refused(
        lambda: hvd.allreduce([1.0], prescale_factor=factor, name="x"), "'x'", "0.5", "0.25"
    )
    assert_refused(
        lambda: hvd.allreduce([1.0], postscale_factor=factor, name="x"), "'x'", "0.5", "0.25"
    )


@checks.needs(2)
def check_roots_differ() -> None:
    root = other(0, 1)
    assert_refused(lambda: hvd.broadcast([1.0], root, name="x"), "'x'", "root", "rank 0")


@checks.needs(2)
def check_kinds_differ() -> None:
    assert_refused(
        lambda: other(hvd.allreduce, lambda t, name: hvd.broadcast(t, 0, name=name))(
            tf.ones([2]), name="x"
        ),
        *("'x'", "allreduce", "broadcast"),
    )


@checks.needs(2)
def check_groups_differ() -> None:
    own = [tf.ones([2])] * other(2, 3)
    assert_refused(lambda: hvd.grouped_allreduce(own, name="group"), "group")


@checks.needs(2)
def check_in_functions() -> None:
    @tf.function(reduce_retracing=False)
    def reduce(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("outer"):
            return hvd.allreduce(x, op=hvd.Sum, name="inner")

    x = tf.ones([other(2, 3)])
    assert_refused(lambda: reduce(x), "outer/inner", "[2]", "[3]")
    np.testing.assert_array_equal(reduce(tf.ones([7])), np.full(7, hvd.size()))


@checks.needs(2)
def check_error_beside_other_reductions() -> None:
    """One of many reductions of a function is wrong: the function ends on all ranks.

    Which of the others a rank has begun when its function ends differs; none may wait for ever,
    and the next call must not take them for its own.
    """

    @tf.function(reduce_retracing=False)
    def reduce(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        results = [hvd.allreduce(x + float(i), op=hvd.Sum, name=f"good{i}") for i in range(8)]
        return [*results, hvd.allreduce(y, op=hvd.Sum, name="wrong")]

    for step in range(5):
        x = tf.fill([1000], float(step))
        assert_refused(lambda x=x: reduce(x, tf.ones([other(2, 3)])), "'wrong'", "[2]", "[3]")
        for i, result in enumerate(reduce(x, tf.ones([2]))[:-1]):
            np.testing.assert_array_equal(result, np.full(1000, (step + i) * hvd.size()))


@checks.needs(2)
def check_error_before_a_late_reduction() -> None:
    """Rank 0 has begun a reduction that the others, after the error, never reach."""

    def late() -> np.float32:
        time.sleep(other(0.0, 1.0))
        return np.float32(1.0)

    @tf.function(reduce_retracing=False)
    def reduce(y: tf.Tensor) -> list[tf.Tensor]:
        x = tf.numpy_function(late, [], tf.float32)
        x.set_shape([])
        return [
            hvd.allreduce(x, op=hvd.Sum, name="late"),
            hvd.allreduce(y, op=hvd.Sum, name="wrong"),
        ]

    for _ in range(2):
        assert_refused(lambda: reduce(tf.ones([other(2, 3)])), "'wrong'", "[2]", "[3]")
        assert float(reduce(tf.ones([2]))[0]) == hvd.size()


@checks.needs(2)
def check_gradients_of_different_shapes() -> None:
    """Gradients run side by side: a late one beside a wrong one."""

    @tf.custom_gradient
    def late(x: tf.Tensor) -> tuple:
        def wait(dy: np.ndarray) -> np.ndarray:
            time.sleep(other(0.0, 0.5))
            return dy

        def gradient(dy: tf.Tensor) -> tf.Tensor:
            slow = tf.numpy_function(wait, [dy], tf.float32)
            slow.set_shape(dy.shape)
            return slow

        return tf.identity(x), gradient

    good = tf.Variable(tf.ones([4]))
    for agree in (False, True):
        wrong = tf.Variable(tf.ones([2] if agree else other([2], [3])))
        for order in ([good, wrong], [wrong, good]):

            def compute() -> list[tf.Tensor]:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(late(good)) + tf.reduce_sum(wrong)  # noqa: B023
                return hvd.DistributedGradientTape(tape).gradient(loss, order)  # noqa: B023

            compute = tf.function(compute)
            if agree:
                assert all(float(tf.reduce_min(gradient)) == 1.0 for gradient in compute())
            else:
                assert_refused(compute, "DistributedGradientTape", "[2]", "[3]")


@checks.needs(2)
def check_every_rank_fails_on_its_own() -> None:
    """Rank 0 fails while it waits for a reduction that the others, failed earlier, never begin."""

    def fail(wanted: np.ndarray) -> np.float32:
        if wanted:
            time.sleep(other(0.5, 0.0))
            raise ValueError("bad data")
        return np.float32(0.0)

    def late() -> np.float32:
        time.sleep(other(0.0, 1.0))
        return np.float32(1.0)

    @tf.function(reduce_retracing=False)
    def reduce(wanted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        failure = tf.numpy_function(fail, [wanted], tf.float32, stateful=False)
        x = tf.numpy_function(late, [], tf.float32, stateful=False)
        x.set_shape([])
        return failure, hvd.allreduce(x, op=hvd.Sum, name="begun")

    for _ in range(3):
        assert float(reduce(tf.constant(False))[1]) == hvd.size()
        hvd.barrier()
        try:
            reduce(tf.constant(True))
        except tf.errors.OpError as error:
            # On a busy machine the others may be late, and tell rank 0 before it fails itself.
            known = ("bad data", "another op of its step failed")
            assert any(reason in str(error) for reason in known), error
        else:
            raise AssertionError("no error")
        hvd.barrier()
    assert_works()


@checks.needs(2)
def check_same_name_twice_in_flight() -> None:
    """Two threads of rank 0 hand in one name before the other ranks do."""
    if hvd.rank() != 0:
        time.sleep(1.0)
        result = hvd.allreduce(tf.ones([3]), op=hvd.Sum, name="twice")
        np.testing.assert_array_equal(result, np.full(3, hvd.size()))
        assert_works()
        return
    outcomes = []

    def reduce() -> None:
        try:
            outcomes.append(hvd.allreduce(tf.ones([3]), op=hvd.Sum, name="twice").numpy())
        except InvalidArgument as error:
            outcomes.append(error.message)

    threads = [threading.Thread(target=reduce) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    messages = [outcome for outcome in outcomes if isinstance(outcome, str)]
    results = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    assert len(messages) == 1 and "'twice'" in messages[0], outcomes
    np.testing.assert_array_equal(results[0], np.full(3, hvd.size()))
    assert_works()


def check_unsupported_dtypes() -> None:
    for value, name in (
        ("text", "string"),
        (1j, "complex128"),
        (tf.constant(1j, tf.complex64), "complex64"),
    ):
        for call in (
            lambda value=value: hvd.allreduce(value, name="odd"),
            lambda value=value: hvd.broadcast(value, 0, name="odd"),
            lambda value=value: tf.function(hvd.allreduce)(value, name="odd"),
        ):
            assert_refused(call, "'odd'", name, "not supported", f"rank {hvd.rank()}", "float32")
    assert_refused(
        lambda: hvd.broadcast_variables([tf.Variable("text", name="label")], 0), "label", "string"
    )


def check_what_is_no_dense_tensor() -> None:
    for value, word in (
        (None, "None is no tensor"),
        (tf.ragged.constant([[1.0], [2.0, 3.0]]), "to_tensor()"),
        (tf.sparse.from_dense([[1.0, 0.0]]), "tf.sparse.to_dense()"),
        (tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0])), "dense_shape"),
        ({"a": 1.0}, "dict"),
        ([1.0, [2.0]], "list"),
    ):
        for call in (
            lambda value=value: hvd.allreduce(value, name="odd"),
            lambda value=value: hvd.grouped_allreduce([tf.ones(2), value], name="odd"),
            lambda value=value: hvd.broadcast(value, 0, name="odd"),
            lambda value=value: tf.function(lambda: hvd.allreduce(value, name="odd"))(),
        ):
            assert_refused(call, "'odd'", word, f"rank {hvd.rank()}")


def check_average_of_bool() -> None:
    assert_refused(lambda: hvd.allreduce([True]), "bool", "Average")


def check_root_out_of_range() -> None:
    for root in (-1, hvd.size()):
        assert_refused(
            lambda root=root: hvd.broadcast(1.0, root, name="x"), "'x'", str(root), "ranks 0 to"
        )
        assert_refused(
            lambda root=root: hvd.broadcast_variables([tf.Variable(1.0)], root), str(root)
        )


def check_xla() -> None:
    try:
        tf.function(hvd.allreduce, jit_compile=True)(tf.ones([2]))
    except NotImplementedError as error:
        assert "jit_compile=False" in str(error)
    else:
        raise AssertionError("compiled")
    assert_works()


def check_not_supported_yet() -> None:
    for call, word in (
        (lambda: hvd.allreduce(1.0, op=hvd.Adasum), "Average"),
        (lambda: hvd.ProcessSet([0]), "global"),
        (lambda: hvd.add_process_set([0]), "global"),
        (lambda: hvd.allreduce(1.0, process_set="mine"), "leave it out"),
        (lambda: hvd.init(process_sets=[[0]]), "all ranks"),
    ):
        try:
            call()
        except NotImplementedError as error:
            assert word in str(error), error
        else:
            raise AssertionError("it was taken")
    try:
        hvd.allreduce(1.0, op="Sum")
    except ValueError as error:
        assert "tf_fasthvd.Average" in str(error)
    else:
        raise AssertionError("it was taken")


if __name__ == "__main__":
    checks.run_all(globals())
