"""Meets through mpi4py, in jobs of mpirun where it is installed."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from tf_fasthvd import _rendezvous

_MEMBER_TAG = 7301
_TABLE_TAG = 7302


def usable(rank: int, size: int) -> bool:
    """Whether mpi4py is there and its MPI is the one that started this job.

    With another MPI than the launcher's, every rank is told to be alone.
    """
    if importlib.util.find_spec("mpi4py") is None:
        return False
    try:
        world = _world()
    except (ImportError, RuntimeError):
        return False
    return world.Get_rank() == rank and world.Get_size() == size


class MpiRendezvous:
    """Members go to rank 0 and the table comes back as messages of MPI_COMM_WORLD.

    Messages of one pair of ranks keep their order, so a later `init()` needs no tags of its own.
    """

    def __init__(self, rank: int, size: int):
        self._world = _world()
        self._rank = rank
        self._size = size
        self._arrived: list[int] = []

    def lead(self, member: bytes, deadline: float) -> list[bytes | None]:
        members: list[bytes | None] = [None] * self._size
        members[0] = member
        for _ in _rendezvous.pauses(deadline):
            for rank in range(1, self._size):
                if members[rank] is None and self._world.iprobe(source=rank, tag=_MEMBER_TAG):
                    members[rank] = self._world.recv(source=rank, tag=_MEMBER_TAG)
                    self._arrived.append(rank)
            if None not in members:
                break
        return members

    def answer(self, table: bytes) -> None:
        requests = [self._world.isend(table, dest=rank, tag=_TABLE_TAG) for rank in self._arrived]
        deadline = time.monotonic() + _rendezvous.GRACE_S
        for _ in _rendezvous.pauses(deadline):
            if all(request.Test() for request in requests):
                return

    def follow(self, member: bytes, deadline: float) -> bytes:
        request = self._world.isend(member, dest=0, tag=_MEMBER_TAG)
        for _ in _rendezvous.pauses(deadline):
            request.Test()  # Lets MPI send.
            if self._world.iprobe(source=0, tag=_TABLE_TAG):
                return self._world.recv(source=0, tag=_TABLE_TAG)
        raise _rendezvous.RanksMissing([0])


def _world() -> Any:
    from mpi4py import MPI

    return MPI.COMM_WORLD
