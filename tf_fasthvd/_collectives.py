"""The collectives: every rank calls them with the same arguments, and all get the same result."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

# Registers the gradients of the native ops, which TensorFlow finds by the ops' names.
from tf_fasthvd import (
    _gradients,  # noqa: F401
    _native,
    _process_sets,
    _reduce_ops,
)
from tf_fasthvd._compression import Compression, Compressor
from tf_fasthvd._context import context
from tf_fasthvd._process_sets import ProcessSet, global_process_set
from tf_fasthvd._reduce_ops import ReduceOp

_LINEAR = (_reduce_ops.Sum, _reduce_ops.Average)


@tf.autograph.experimental.do_not_convert
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> tf.Tensor:
    """Combines a tensor of all ranks element by element. Differentiable.

    Args:
        tensor: A tensor or a variable, of the same shape and dtype on all ranks.
            `tf.IndexedSlices` are made dense, and so is the result.
        average: Deprecated: True means op=Average, False means op=Sum.
        device_dense: The device to run on; without one TensorFlow chooses.
        device_sparse: Not used: sparse tensors are reduced as dense ones.
        compression: How to send the tensor in fewer bytes; see `Compression`.
        op: `Average` (the default), `Sum`, `Min`, `Max` or `Product`.
        prescale_factor: Multiplies the tensor before the reduction.
        postscale_factor: Multiplies the result.
        name: The name that all ranks give this call. Ranks that run their calls in different
            orders need names of their own; others may leave it out.
        process_set: The ranks that take part; only all of them is supported yet.
        ignore_name_scope: Leaves the enclosing name scopes of a graph out of the name.

    Returns:
        The combined tensor, the same bit for bit on all ranks.
    """
    (result,) = grouped_allreduce(
        [tensor],
        average=average,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        ignore_name_scope=ignore_name_scope,
        name=name,
    )
    return result


@tf.autograph.experimental.do_not_convert
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[tf.Tensor]:
    """Combines several tensors of all ranks as one step; see `allreduce` for the arguments.

    Tensors of one dtype are negotiated and run together; each dtype makes a group of its own.
    """
    context.topology  # noqa: B018 (raises before init())
    op = _reduce_ops.resolve(op, average)
    _process_sets.check(process_set)
    what = f"allreduce of tensor '{name}'" if name else "allreduce"
    with _on_device(device_dense):
        dense = [_native.as_tensor(tensor, what) for tensor in tensors]
        if op not in _LINEAR:
            # Outside of the native op: its gradient then has no factors to deal with.
            dense = [_native.scaled(tensor, prescale_factor) for tensor in dense]
            prescale_factor, outer_factor, postscale_factor = 1.0, postscale_factor, 1.0
        else:
            outer_factor = 1.0
        sent = [compression.compress(tensor) for tensor in dense]
        positions_of: dict[tf.DType, list[int]] = {}
        for position, (tensor, _) in enumerate(sent):
            positions_of.setdefault(tensor.dtype, []).append(position)
        results: list[Any] = [None] * len(sent)
        for dtype, positions in positions_of.items():
            outputs = _native.allreduce(
                [sent[position][0] for position in positions],
                op=op,
                name=f"{name}_{dtype.name}" if name and len(positions_of) > 1 else name,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
                ignore_name_scope=ignore_name_scope,
            )
            for position, output in zip(positions, outputs, strict=True):
                result = compression.decompress(output, sent[position][1])
                results[position] = _native.scaled(result, outer_factor)
    return results


@tf.autograph.experimental.do_not_convert
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Returns the tensor of rank `root_rank` on all ranks. Differentiable.

    Args:
        tensor: A tensor or a variable, of the same shape and dtype on all ranks.
        root_rank: The rank whose values all get.
        name: See `allreduce`.
        ignore_name_scope: See `allreduce`.
        process_set: See `allreduce`.
    """
    _process_sets.check(process_set)
    what = f"broadcast of tensor '{name}'" if name else "broadcast"
    check_root(root_rank, what)
    (result,) = _native.broadcast(
        [_native.as_tensor(tensor, what)],
        root_rank=root_rank,
        name=name,
        ignore_name_scope=ignore_name_scope,
    )
    return result


@tf.autograph.experimental.do_not_convert
def barrier(
    process_set: ProcessSet = global_process_set, name: str | None = None
) -> tf.Operation | None:
    """Returns on every rank once all ranks have called it.

    Args:
        process_set: See `allreduce`.
        name: See `allreduce`.

    Returns:
        None in eager mode; in a graph, the op that waits.
    """
    _process_sets.check(process_set)
    return _native.barrier(name)


def check_root(root_rank: int, what: str) -> None:
    """Raises unless `root_rank` is a rank of the job; `what` opens the message."""
    size = context.topology.size
    if not 0 <= root_rank < size:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"{what} on rank {context.topology.rank}: root_rank {root_rank} is not a rank of this "
            f"job; it has ranks 0 to {size - 1}.",
        )


def _on_device(device: str) -> contextlib.AbstractContextManager[Any]:
    return tf.device(device) if device else contextlib.nullcontext()
