"""The ways to combine the tensors of all ranks."""

from __future__ import annotations

import enum
import warnings


class ReduceOp(enum.Enum):
    """A reduction; the value is its name in the native ops."""

    AVERAGE = "Average"
    SUM = "Sum"
    MIN = "Min"
    MAX = "Max"
    PRODUCT = "Product"
    ADASUM = "Adasum"


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT
Adasum = ReduceOp.ADASUM


def resolve(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """The reduction meant by `op` and Horovod's older argument `average`.

    Raises:
        ValueError: Both are given, or `op` is none of this package's reductions.
        NotImplementedError: `op` is Adasum.
    """
    if average is not None:
        if op is not None:
            raise ValueError("give either `op` or `average`, not both; `op` is the newer one.")
        warnings.warn(
            "`average` is deprecated; use op=tf_fasthvd.Average or op=tf_fasthvd.Sum.",
            DeprecationWarning,
            stacklevel=3,
        )
        return Average if average else Sum
    if op is None:
        return Average
    if not isinstance(op, ReduceOp):
        raise ValueError(
            f"op={op!r} is not a reduction; use tf_fasthvd.Average, Sum, Min, Max or Product."
        )
    if op is Adasum:
        raise NotImplementedError("op=Adasum is not supported yet; use op=tf_fasthvd.Average.")
    return op
