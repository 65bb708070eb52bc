"""Gives the variables of all ranks the values of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tf_fasthvd import _collectives, _native, _process_sets
from tf_fasthvd._process_sets import ProcessSet, global_process_set

# Variables are broadcast in groups, so that the values under way take this much memory at most
# (or as much as the largest variable).
_GROUP_BYTES = 64 << 20


@tf.autograph.experimental.do_not_convert
def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> tf.Operation | None:
    """Assigns the values of rank `root_rank` to the variables of all ranks.

    All ranks hand in variables of the same shapes and dtypes in the same order.

    Args:
        variables: `tf.Variable`s, `keras.Variable`s, or both.
        root_rank: The rank whose values all get.
        process_set: The ranks that take part; only all of them is supported yet.
        inplace: Makes no difference: the variables are always changed in place.

    Returns:
        None in eager mode; in a graph, the op that does it.
    """
    _process_sets.check(process_set)
    assigned = _broadcast_into(list(variables), root_rank)
    return None if tf.executing_eagerly() else tf.group(*assigned)


@tf.autograph.experimental.do_not_convert
def broadcast_(
    variables: Iterable[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Like `broadcast_variables`, but returns the variables.

    Args:
        variables: See `broadcast_variables`.
        root_rank: See `broadcast_variables`.
        name: The name that all ranks give this call.
        process_set: See `broadcast_variables`.

    Returns:
        The variables in eager mode; in a graph, their values after the broadcast.
    """
    _process_sets.check(process_set)
    variables = list(variables)
    assigned = _broadcast_into(variables, root_rank, name)
    return variables if tf.executing_eagerly() else assigned


def _broadcast_into(variables: Sequence[Any], root_rank: int, name: str | None = None) -> list[Any]:
    """Broadcasts in groups of one dtype; the results of assign, in the variables' order."""
    name = name or "broadcast_variables"
    _collectives.check_root(root_rank, f"broadcast of variables '{name}'")
    variables = [native_variable(variable) for variable in variables]
    assigned: list[Any] = [None] * len(variables)
    for number, positions in enumerate(_groups(variables)):
        values = [
            _native.as_tensor(variables[p], f"broadcast of variable '{variables[p].name}'")
            for p in positions
        ]
        results = _native.broadcast(
            values,
            root_rank=root_rank,
            name=f"{name}/{values[0].dtype.name}_{number}",
            ignore_name_scope=True,
        )
        for position, result in zip(positions, results, strict=True):
            assigned[position] = variables[position].assign(result)
    return assigned


def _groups(variables: Sequence[tf.Variable]) -> Iterator[list[int]]:
    """Positions of variables that go together: one dtype, at most `_GROUP_BYTES`."""
    positions_of: dict[tf.DType, list[int]] = {}
    for position, variable in enumerate(variables):
        positions_of.setdefault(variable.dtype, []).append(position)
    for dtype, positions in positions_of.items():
        group: list[int] = []
        group_bytes = 0
        for position in positions:
            size = (variables[position].shape.num_elements() or 0) * dtype.size
            if group and group_bytes + size > _GROUP_BYTES:
                yield group
                group, group_bytes = [], 0
            group.append(position)
            group_bytes += size
        yield group


def native_variable(variable: Any) -> Any:
    """The `tf.Variable` of a `keras.Variable`; anything else as it is."""
    import keras

    return variable.value if isinstance(variable, keras.Variable) else variable
