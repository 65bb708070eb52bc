"""Subsets of ranks; as yet only the set of all ranks."""

from __future__ import annotations

from typing import Any

from tf_fasthvd import _context


class ProcessSet:
    """A set of ranks that run collectives among themselves.

    Only `global_process_set`, the set of all ranks, is supported yet.
    """

    def __init__(self, ranks: Any):
        raise NotImplementedError(
            "process sets of some ranks are not supported yet; use the global process set."
        )

    @property
    def process_set_id(self) -> int:
        return 0

    @property
    def ranks(self) -> list[int]:
        return list(range(_context.size()))

    def included(self) -> bool:
        """Whether this rank is in the set."""
        return _context.rank() in self.ranks

    def rank(self) -> int:
        """This rank's number within the set."""
        return _context.rank()

    def size(self) -> int:
        """The number of ranks in the set."""
        return _context.size()

    def __repr__(self) -> str:
        return "ProcessSet(global)"


global_process_set = ProcessSet.__new__(ProcessSet)


def add_process_set(process_set: Any) -> ProcessSet:
    """Not supported yet."""
    raise NotImplementedError("add_process_set is not supported yet; use the global process set.")


def remove_process_set(process_set: Any) -> bool:
    """Not supported yet."""
    raise NotImplementedError("remove_process_set is not supported yet.")


def check(process_set: ProcessSet) -> ProcessSet:
    """Returns `process_set` if it is one that collectives can run in."""
    if process_set is not global_process_set:
        raise NotImplementedError(
            f"process_set={process_set!r} is not supported yet; leave it out to use all ranks."
        )
    return process_set
