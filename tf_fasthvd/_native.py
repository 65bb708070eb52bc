"""Calls of the native ops, with everything around them that all collectives share.

Every function here checks that the runtime runs and that the op may be placed here, finds the
name, and raises the right exception. The public functions are in `_collectives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from tf_fasthvd import _errors, _names
from tf_fasthvd._context import context
from tf_fasthvd._loader import load
from tf_fasthvd._reduce_ops import ReduceOp

_ops = load().ops

SUPPORTED_DTYPES = (
    tf.uint8,
    tf.int8,
    tf.uint16,
    tf.int16,
    tf.uint32,
    tf.int32,
    tf.uint64,
    tf.int64,
    tf.float16,
    tf.bfloat16,
    tf.float32,
    tf.float64,
    tf.bool,
)


def as_tensor(value: Any, what: str) -> tf.Tensor:
    """`value` as a dense tensor of a type that the runtime can move.

    Args:
        value: Anything that TensorFlow makes a tensor of; `tf.IndexedSlices` become dense.
        what: The collective and its name, for the message.

    Raises:
        tf.errors.InvalidArgumentError: It is no dense tensor, or its type is not supported.
    """
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise _refusal(what, _why_not_dense(value, error)) from error
    if tensor.dtype not in SUPPORTED_DTYPES:
        names = ", ".join(dtype.name for dtype in SUPPORTED_DTYPES)
        raise _refusal(
            what,
            f"dtype {tensor.dtype.name} is not supported; cast the tensor to one of {names}.",
        )
    return tensor


def _refusal(what: str, why: str) -> Exception:
    text = f"{what} on rank {context.topology.rank}: {why}"
    return tf.errors.InvalidArgumentError(None, None, text)


def _why_not_dense(value: Any, error: Exception) -> str:
    if value is None:
        return "None is no tensor; hand in zeros where a rank has nothing to add."
    if isinstance(value, tf.IndexedSlices):
        return "tf.IndexedSlices without dense_shape; make them with the shape of the whole."
    if isinstance(value, tf.SparseTensor):
        return "a tf.SparseTensor is not dense; hand in tf.sparse.to_dense() of it."
    if isinstance(value, tf.RaggedTensor):
        return "a tf.RaggedTensor is not dense; hand in its to_tensor() in a shape all ranks share."
    return f"no dense tensor can be made of a {type(value).__name__}: {error}"


def check_may_run() -> None:
    """Raises unless the runtime runs and this is a place where its ops can be."""
    context.topology  # noqa: B018 (raises before init())
    if not tf.executing_eagerly() and control_flow_util.GraphOrParentsInXlaContext(
        tf.compat.v1.get_default_graph()
    ):
        raise NotImplementedError(
            "tf_fasthvd's collectives cannot be compiled by XLA yet; pass jit_compile=False to "
            "model.compile() or tf.function()."
        )


def allreduce(
    tensors: Sequence[tf.Tensor],
    *,
    op: ReduceOp,
    name: str | None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
) -> list[tf.Tensor]:
    """Reduces tensors of one dtype over all ranks, negotiated and run as one.

    Args:
        tensors: One or more tensors of the same dtype.
        op: The reduction.
        name: The name that all ranks give this collective, or None for one of its own.
        prescale_factor: Multiplies the tensors before the reduction.
        postscale_factor: Multiplies the result.
        ignore_name_scope: Leaves the enclosing name scopes out of the name.
    """
    check_may_run()
    pre_in_op, post_in_op = (
        factor if _fits(factor, tensors[0].dtype) else 1.0
        for factor in (prescale_factor, postscale_factor)
    )
    if pre_in_op != prescale_factor:
        tensors = [scaled(tensor, prescale_factor) for tensor in tensors]
    with (
        _names.name_of("allreduce", name, tensors[0], ignore_name_scope) as (
            tensor_name,
            op_name,
        ),
        _errors.translate_lost_peer(),
    ):
        outputs = _ops.fasthvd_allreduce(
            tensors=tensors,
            handles=_own_resource(),
            tensor_name=tensor_name,
            reduce_op=op.value,
            prescale_factor=pre_in_op,
            postscale_factor=post_in_op,
            process_set_id=0,
            name=op_name,
        )
    if post_in_op != postscale_factor:
        outputs = [scaled(output, postscale_factor) for output in outputs]
    return list(outputs)


def broadcast(
    tensors: Sequence[tf.Tensor],
    *,
    root_rank: int,
    name: str | None,
    ignore_name_scope: bool = False,
) -> list[tf.Tensor]:
    """The root's values of tensors of one dtype; the arguments are those of `allreduce`."""
    check_may_run()
    with (
        _names.name_of("broadcast", name, tensors[0], ignore_name_scope) as (
            tensor_name,
            op_name,
        ),
        _errors.translate_lost_peer(),
    ):
        return list(
            _ops.fasthvd_broadcast(
                tensors=tensors,
                handles=_own_resource(),
                tensor_name=tensor_name,
                root_rank=root_rank,
                process_set_id=0,
                name=op_name,
            )
        )


def barrier(name: str | None) -> tf.Operation | None:
    """Waits until all ranks are here; in a graph, returns the op that does."""
    check_may_run()
    with (
        _names.name_of("barrier", name) as (tensor_name, op_name),
        _errors.translate_lost_peer(),
    ):
        return _ops.fasthvd_barrier(tensor_name=tensor_name, process_set_id=0, name=op_name)


def _own_resource() -> list[tf.Tensor]:
    """A resource that nothing else in the current graph uses; none in eager mode.

    In a function TensorFlow runs all stateful ops one after the other, except that ops which take
    resources are only ordered among those that take the same one. With a resource of its own a
    collective runs beside the others, as soon as its input is there.
    """
    if tf.executing_eagerly():
        return []
    return [tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], name="fasthvd_order")]


def _fits(factor: float, dtype: tf.DType) -> bool:
    """Whether the op's 32-bit factor loses nothing that the dtype could show."""
    return dtype.size < 4 or dtype == tf.float32 or float(np.float32(factor)) == float(factor)


def scaled(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    """`tensor` times `factor`, computed in float64; integers are truncated toward zero."""
    if factor == 1.0:
        return tensor
    # Not tf.cast of the factor, which would make it a float32 first.
    product = tf.cast(tensor, tf.float64) * tf.constant(factor, tf.float64)
    return tf.cast(product, tensor.dtype)
