"""Meets over sockets that rank 0 serves: one connection per rank, open until rank 0 answers.

A rank sends its member in one line and waits; rank 0 collects the lines of all ranks, then sends
the table to each. Inside one host this is an abstract Unix socket, named by user and job, that
turns away other users; between hosts it is TCP at FASTHVD_RENDEZVOUS.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tf_fasthvd import _rendezvous

_LINE_LIMIT = 1 << 20  # Bytes of a member; a stranger may not fill the memory.


def over_tcp(address: str, rank: int, size: int, generation: int) -> SocketRendezvous:
    """Meets at `host:port` (IPv6: `[host]:port`), where rank 0 listens."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        raise ValueError(f"FASTHVD_RENDEZVOUS={address} is not host:port; correct or unset it.")

    def resolve() -> tuple[int, tuple]:
        family, _, _, _, where = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        return family, where

    return SocketRendezvous(resolve, rank, size, generation)


def in_host(job: str, rank: int, size: int, generation: int) -> SocketRendezvous:
    """Meets at an abstract Unix socket of this user and job."""
    name = f"\0fasthvd-{os.getuid()}-{generation}-{job}"[:107]
    return SocketRendezvous(lambda: (socket.AF_UNIX, name), rank, size, generation)


@dataclass
class _Guest:
    """A connection to rank 0, whose rank is known once its line is complete."""

    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)


class SocketRendezvous:
    """See the module's text."""

    def __init__(
        self,
        resolve: Callable[[], tuple[int, tuple | str]],
        rank: int,
        size: int,
        generation: int,
    ):
        self._resolve = resolve
        self._rank = rank
        self._size = size
        self._generation = generation
        self._arrived: dict[int, socket.socket] = {}

    def lead(self, member: bytes, deadline: float) -> list[bytes | None]:
        members: list[bytes | None] = [None] * self._size
        members[0] = member
        with self._listener() as listener, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while None in members and (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if key.fileobj is listener:
                        self._accept(listener, selector)
                    else:
                        self._receive(key.data, selector, members)
            for key in list(selector.get_map().values()):
                if key.fileobj is not listener:
                    key.fileobj.close()
        return members

    def answer(self, table: bytes) -> None:
        for connection in self._arrived.values():
            with connection:
                connection.settimeout(5.0)
                # If that rank is gone, starting the runtime will tell.
                with contextlib.suppress(OSError):
                    connection.sendall(table + b"\n")
        self._arrived.clear()

    def follow(self, member: bytes, deadline: float) -> bytes:
        hello = json.dumps(
            {"rank": self._rank, "generation": self._generation, "member": member.decode()}
        ).encode()
        for _ in _rendezvous.pauses(deadline, first_s=0.02):
            try:
                with self._connect() as connection:
                    connection.sendall(hello + b"\n")
                    table = self._read_answer(connection, deadline)
            except OSError:
                continue  # Rank 0 does not listen yet.
            if table:
                return table
        raise _rendezvous.RanksMissing([0])

    def _listener(self) -> socket.socket:
        family, where = self._resolve()
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(socket.SOMAXCONN)
        except OSError as error:
            listener.close()
            raise OSError(
                f"rank 0 cannot listen for the other ranks at {where!r}: {error}"
            ) from None
        return listener

    def _accept(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        connection, _ = listener.accept()
        if not _same_user(connection):
            connection.close()
            return
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ, _Guest(connection))

    def _receive(
        self, guest: _Guest, selector: selectors.BaseSelector, members: list[bytes | None]
    ) -> None:
        """Reads on; a complete line makes the guest a rank, anything else sends it away."""
        try:
            data = guest.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        guest.received += data
        complete = guest.received.endswith(b"\n")
        if data and not complete and len(guest.received) <= _LINE_LIMIT:
            return
        selector.unregister(guest.connection)
        rank = self._admit(guest.received, members) if complete else None
        if rank is None:
            guest.connection.close()
            return
        earlier = self._arrived.pop(rank, None)
        if earlier is not None:
            earlier.close()
        self._arrived[rank] = guest.connection

    def _admit(self, line: bytearray, members: list[bytes | None]) -> int | None:
        """The rank that said `line`, whose member is noted; None for a stranger."""
        try:
            hello = json.loads(line)
            rank, generation, member = hello["rank"], hello["generation"], hello["member"]
            json.loads(member)
        except (ValueError, TypeError, KeyError):
            return None
        if generation != self._generation or rank not in range(1, self._size):
            return None
        members[rank] = member.encode()
        return rank

    def _connect(self) -> socket.socket:
        family, where = self._resolve()
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(5.0)
            connection.connect(where)
            if not _same_user(connection):
                raise PermissionError("another user's process listens in rank 0's place")
            if connection.getsockname() == where:
                # While nobody listens there, TCP can connect a socket with itself.
                raise ConnectionRefusedError
        except OSError:
            connection.close()
            raise
        return connection

    def _read_answer(self, connection: socket.socket, deadline: float) -> bytes:
        received = bytearray()
        while not received.endswith(b"\n"):
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            data = connection.recv(1 << 16)
            if not data:
                return b""
            received += data
        return bytes(received)


def _same_user(connection: socket.socket) -> bool:
    """Whether the peer of a Unix socket runs as this user; True for other sockets."""
    if connection.family != socket.AF_UNIX:
        return True
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return struct.unpack("3i", credentials)[1] == os.getuid()
