"""The gradients of the native ops.

A rank's loss may depend on the rank, so the gradient that reaches an input is that of the sum of
all ranks' losses. In what follows dy is the gradient of one rank's loss by the result, and G its
sum over the ranks.
"""

from __future__ import annotations

import tensorflow as tf

from tf_fasthvd import _native
from tf_fasthvd._context import context
from tf_fasthvd._reduce_ops import Average, Max, Min, Product, ReduceOp, Sum


@tf.RegisterGradient("FasthvdAllreduce")
def _allreduce_gradient(op: tf.Operation, *upstream: tf.Tensor | None) -> list[tf.Tensor | None]:
    inputs = op.inputs[: len(upstream)]
    reduce_op = ReduceOp(op.get_attr("reduce_op").decode())
    name = _gradient_name(op)
    dys = _dense(upstream, op.outputs)
    if reduce_op in (Sum, Average):
        # The op is linear and treats all ranks alike: its own transpose, up to the factors' order.
        gradients = _native.allreduce(
            dys,
            op=reduce_op,
            name=name,
            prescale_factor=op.get_attr("postscale_factor"),
            postscale_factor=op.get_attr("prescale_factor"),
            ignore_name_scope=True,
        )
    elif reduce_op in (Min, Max):
        gradients = _extremum_gradient(inputs, op.outputs, dys, name)
    else:
        gradients = _product_gradient(inputs, dys, name)
    return gradients + [None] * (len(op.inputs) - len(inputs))


def _extremum_gradient(
    inputs: list[tf.Tensor], outputs: list[tf.Tensor], dys: list[tf.Tensor], name: str | None
) -> list[tf.Tensor]:
    """G goes to the ranks that hold the extremum; ties share it."""
    holds = [tf.cast(x == y, x.dtype) for x, y in zip(inputs, outputs, strict=True)]
    summed = _native.allreduce([*dys, *holds], op=Sum, name=name, ignore_name_scope=True)
    totals, holders = summed[: len(dys)], summed[len(dys) :]
    return [
        tf.math.divide_no_nan(held * total, count)
        for held, total, count in zip(holds, totals, holders, strict=True)
    ]


def _product_gradient(
    inputs: list[tf.Tensor], dys: list[tf.Tensor], name: str | None
) -> list[tf.Tensor]:
    """G times the product of the other ranks' values.

    That product is the one of all values that are not zero, divided by the own value; if some
    other rank has a zero it is zero.
    """
    zeros = [tf.cast(x == 0, x.dtype) for x in inputs]
    nonzeros = [tf.where(x == 0, tf.ones_like(x), x) for x in inputs]
    summed = _native.allreduce([*dys, *zeros], op=Sum, name=name, ignore_name_scope=True)
    products = _native.allreduce(
        nonzeros, op=Product, name=name and f"{name}_product", ignore_name_scope=True
    )
    totals, zero_counts = summed[: len(dys)], summed[len(dys) :]
    gradients = []
    for total, product, own, zero, zero_count in zip(
        totals, products, nonzeros, zeros, zero_counts, strict=True
    ):
        others = product / own  # `own` is 1 where the value is zero.
        gradients.append(tf.where(zero_count == zero, total * others, tf.zeros_like(total)))
    return gradients


@tf.RegisterGradient("FasthvdBroadcast")
def _broadcast_gradient(op: tf.Operation, *upstream: tf.Tensor | None) -> list[tf.Tensor | None]:
    """G on the root, whose values all ranks got; zero on the others, whose values were not used."""
    totals = _native.allreduce(
        _dense(upstream, op.outputs), op=Sum, name=_gradient_name(op), ignore_name_scope=True
    )
    if context.topology.rank != op.get_attr("root_rank"):
        totals = [tf.zeros_like(total) for total in totals]
    return totals + [None] * (len(op.inputs) - len(totals))


tf.no_gradient("FasthvdBarrier")


def _dense(upstream: tuple[tf.Tensor | None, ...], outputs: list[tf.Tensor]) -> list[tf.Tensor]:
    """The upstream gradients as dense tensors; zeros where the loss does not use an output."""
    return [
        tf.zeros_like(y) if dy is None else tf.convert_to_tensor(dy)
        for dy, y in zip(upstream, outputs, strict=True)
    ]


def _gradient_name(op: tf.Operation) -> str | None:
    """The forward op's name with a suffix in graphs; eager gradients are unnamed calls."""
    if tf.executing_eagerly():
        return None
    return f"{op.get_attr('tensor_name').decode()}_gradient"
