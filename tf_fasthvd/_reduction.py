"""Reduces the gradients of one training step, for the optimizer and for the tape."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_fasthvd import _native, _process_sets, _reduce_ops
from tf_fasthvd._compression import Compressor
from tf_fasthvd._process_sets import ProcessSet
from tf_fasthvd._reduce_ops import Average, Max, ReduceOp, Sum
from tf_fasthvd._variables import native_variable

# Keras numbers the layers of a process (dense_3), and a rank that built one more model than the
# others numbers them differently.
_AUTOMATIC_NUMBER = re.compile(r"_\d+(?=/|$)")


@dataclass(frozen=True)
class _Gradient:
    """A gradient of this rank, ready to be sent.

    Attributes:
        position: Its place in the list that the caller handed in.
        tensor: The dense, compressed gradient.
        dtype: The type to return the reduced gradient in.
        variable: The source of the gradient; a tensor for gradients of tensors.
        op: The reduction.
    """

    position: int
    tensor: tf.Tensor
    dtype: tf.DType
    variable: Any
    op: ReduceOp


@dataclass(frozen=True)
class GradientReducer:
    """The settings of a `DistributedOptimizer` or `DistributedGradientTape`.

    Attributes:
        name: Opens the names of the collectives.
        op: `Average` or `Sum`.
        compression: How gradients are sent.
        gradient_predivide_factor: With `Average`, gradients are divided by this before they are
            summed, and by the rest of the number of ranks afterwards.
        groups: The number of groups of gradients that are reduced as one, or lists of variables
            whose gradients are; None reduces each on its own (the runtime still fuses them).
    """

    name: str
    op: ReduceOp
    compression: type[Compressor]
    gradient_predivide_factor: float
    groups: int | tuple[tuple[Any, ...], ...] | None

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients combined over all ranks, in the same order.

        In a graph every gradient (or group) is a collective of its own, which starts as soon as
        the backward pass has made the gradient. In eager mode they are all there already, so
        those of one dtype are one collective.

        Args:
            gradients: Tensors, `tf.IndexedSlices` (made dense), or None, which stays None.
            variables: What each is the gradient of.
        """
        own = [
            self._prepare(position, gradient, variable)
            for position, (gradient, variable) in enumerate(zip(gradients, variables, strict=True))
            if gradient is not None
        ]
        reduced: list[Any] = [None] * len(gradients)
        for name, bundle in self._bundles(own):
            outputs = self._reduce_bundle(f"{self.name}/{name}", bundle)
            for gradient, output in zip(bundle, outputs, strict=True):
                reduced[gradient.position] = self.compression.decompress(output, gradient.dtype)
        return reduced

    def _prepare(self, position: int, gradient: Any, variable: Any) -> _Gradient:
        what = f"gradient of '{_readable_name(variable)}'"
        dense = _native.as_tensor(gradient, what)
        tensor, dtype = self.compression.compress(dense)
        # Such variables (scales of float8) take their gradient as their next value.
        overwrites = getattr(variable, "overwrite_with_gradient", False)
        return _Gradient(position, tensor, dtype, variable, Max if overwrites else self.op)

    def _bundles(self, own: Sequence[_Gradient]) -> list[tuple[str, list[_Gradient]]]:
        """The collectives to run, each a name and gradients of one dtype and reduction."""
        if self.groups is None and not tf.executing_eagerly():
            return [(f"{g.position}/{_readable_name(g.variable)}", [g]) for g in own]
        bundles = []
        for number, group in enumerate(self._grouped(own)):
            bundles += _split_by_type(f"group_{number}", group)
        return bundles

    def _grouped(self, own: Sequence[_Gradient]) -> list[list[_Gradient]]:
        if self.groups is None:
            return [list(own)]
        if isinstance(self.groups, int):
            share, more = divmod(len(own), self.groups)
            ends = [share * (i + 1) + min(i + 1, more) for i in range(self.groups)]
            starts = [0, *ends[:-1]]
            return [list(own[a:b]) for a, b in zip(starts, ends, strict=True) if a < b]
        rest = {id(native_variable(g.variable)): g for g in own}
        grouped = []
        for group in self.groups:
            members = [rest.pop(id(native_variable(v)), None) for v in group]
            grouped.append([g for g in members if g is not None])
        return [group for group in grouped if group] + [[g] for g in rest.values()]

    def _reduce_bundle(self, name: str, bundle: Sequence[_Gradient]) -> list[tf.Tensor]:
        op = bundle[0].op
        predivide = self.gradient_predivide_factor if op is Average else 1.0
        return _native.allreduce(
            [g.tensor for g in bundle],
            op=op,
            name=name,
            prescale_factor=1.0 / predivide,
            postscale_factor=predivide,
            ignore_name_scope=True,
        )


def make_reducer(
    *,
    name: str,
    op: ReduceOp,
    compression: type[Compressor],
    gradient_predivide_factor: float,
    num_groups: int,
    groups: Any,
    process_set: ProcessSet,
) -> GradientReducer:
    """Checks the arguments that optimizer and tape have in common.

    Raises:
        ValueError: An argument, or a pair of them, makes no sense.
        NotImplementedError: An argument is not supported yet.
    """
    _process_sets.check(process_set)
    op = _reduce_ops.resolve(op)
    if op not in (Average, Sum):
        raise ValueError(f"op={op.name} does not fit gradients; use tf_fasthvd.Average or Sum.")
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise ValueError("gradient_predivide_factor needs op=tf_fasthvd.Average.")
    if not gradient_predivide_factor > 0:
        raise ValueError(f"gradient_predivide_factor={gradient_predivide_factor} is not positive.")
    if num_groups:
        warnings.warn("`num_groups` is deprecated; use `groups`.", DeprecationWarning, stacklevel=4)
        groups = num_groups if groups is None else groups
    if isinstance(groups, (list, tuple)):
        groups = tuple(tuple(group) for group in groups)
    elif groups is not None and not (isinstance(groups, int) and groups > 0):
        raise ValueError(f"groups={groups!r} is neither a positive number nor lists of variables.")
    return GradientReducer(
        name=name,
        op=op,
        compression=compression,
        gradient_predivide_factor=gradient_predivide_factor,
        groups=groups,
    )


def _split_by_type(name: str, group: Sequence[_Gradient]) -> list[tuple[str, list[_Gradient]]]:
    bundles: dict[str, list[_Gradient]] = {}
    for gradient in group:
        suffix = gradient.tensor.dtype.name
        if gradient.op is Max:
            suffix += "_overwriting"
        bundles.setdefault(f"{name}/{suffix}", []).append(gradient)
    return list(bundles.items())


def _readable_name(variable: Any) -> str:
    """A name for messages that is the same on all ranks; with a position it is unique too."""
    name = getattr(variable, "path", None) or getattr(variable, "name", None) or "tensor"
    return _AUTOMATIC_NUMBER.sub("", name.partition(":")[0])
