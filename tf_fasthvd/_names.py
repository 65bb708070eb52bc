"""The names under which ranks match their collectives.

In a graph a collective is named like its op, name scope included, so that every rank that traces
the same program gets the same names. In eager mode a collective without a name borrows the
smallest free number: sequential calls share one name, and the runtime's table of known names
stays as small as the number of calls that run at the same time.
"""

from __future__ import annotations

import contextlib
import heapq
import re
import threading
from collections.abc import Iterator

import tensorflow as tf

_NOT_IN_OP_NAMES = re.compile(r"[^A-Za-z0-9_.\\/>-]")


class NamePool:
    """Lends names `<kind>.<number>` with the smallest free number of a kind. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[str, list[int]] = {}  # Returned numbers, as a heap; under the lock.
        self._next: dict[str, int] = {}  # The smallest number never lent; under the lock.

    @contextlib.contextmanager
    def borrow(self, kind: str) -> Iterator[str]:
        """A name that no other borrower has until the block ends."""
        with self._lock:
            free = self._free.setdefault(kind, [])
            if free:
                number = heapq.heappop(free)
            else:
                number = self._next.get(kind, 0)
                self._next[kind] = number + 1
        try:
            yield f"{kind}.{number}"
        finally:
            with self._lock:
                heapq.heappush(self._free[kind], number)


_pool = NamePool()


def op_name(text: str) -> str:
    """`text` with everything replaced that the name of a TensorFlow op may not contain."""
    name = _NOT_IN_OP_NAMES.sub("_", text)
    return name if name[:1].isalnum() or name[:1] == "." else f"x{name}"


@contextlib.contextmanager
def name_of(
    kind: str, name: str | None, tensor: tf.Tensor | None = None, ignore_name_scope: bool = False
) -> Iterator[tuple[str, str | None]]:
    """The collective's name and the op's own name, to create the op with inside the block.

    Args:
        kind: The collective, for one without a name.
        name: The caller's name for the collective, or None.
        tensor: What a collective of a graph is named after when `name` is None.
        ignore_name_scope: Leaves the enclosing name scopes out of the name.
    """
    if tf.executing_eagerly():
        with _pool.borrow(kind) if name is None else contextlib.nullcontext(name) as lent:
            yield lent, None
        return
    if name is None:
        name = kind if tensor is None else f"{kind}_{tensor.name.replace('/', '_')}"
    name = op_name(name)
    graph = tf.compat.v1.get_default_graph()
    with graph.name_scope(None) if ignore_name_scope else contextlib.nullcontext():
        yield graph.unique_name(name, mark_as_used=False), name
