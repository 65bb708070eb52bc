"""Every call before init() says to call it."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

import tf_fasthvd as hvd
from tf_fasthvd import keras as hvd_keras

ONE = tf.constant(1.0)
CALLS = {
    "rank": hvd.rank,
    "size": hvd.size,
    "local_rank": hvd.local_rank,
    "local_size": hvd.local_size,
    "cross_rank": hvd.cross_rank,
    "cross_size": hvd.cross_size,
    "is_homogeneous": hvd.is_homogeneous,
    "rank_op": hvd.rank_op,
    "size_op": hvd.size_op,
    "mpi_enabled": hvd.mpi_enabled,
    "gloo_enabled": hvd.gloo_enabled,
    "allreduce": lambda: hvd.allreduce(ONE),
    "allreduce of nothing": lambda: hvd.grouped_allreduce([]),
    "allreduce while tracing": lambda: tf.function(hvd.allreduce)(ONE),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([ONE]),
    "broadcast": lambda: hvd.broadcast(ONE, 0),
    "broadcast_variables": lambda: hvd.broadcast_variables([tf.Variable(1.0)], 0),
    "barrier": hvd.barrier,
    "optimizer": lambda: hvd.DistributedOptimizer(keras.optimizers.SGD()),
    "tape": lambda: hvd.DistributedGradientTape(tf.GradientTape()),
    "keras allreduce": lambda: hvd_keras.allreduce(1.0),
    "process set": hvd.global_process_set.size,
    "string tensor": lambda: hvd.allreduce("text"),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_init_first(name):
    with pytest.raises(ValueError, match=r"call tf_fasthvd\.init\(\) first"):
        CALLS[name]()


def test_what_works_before():
    assert not hvd.is_initialized()
    hvd.shutdown()
    assert hvd.gloo_built() and not hvd.mpi_built() and not hvd.nccl_built()


def test_an_op_traced_before_shutdown():
    """The op itself refuses to run without the runtime."""
    hvd.init()
    reduce = tf.function(lambda x: hvd.allreduce(x))
    assert float(reduce(ONE)) == 1.0
    hvd.shutdown()
    with pytest.raises(tf.errors.FailedPreconditionError, match="init"):
        reduce(ONE)
    hvd.init()
    assert float(reduce(ONE)) == 1.0
    hvd.shutdown()
