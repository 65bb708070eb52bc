"""How the ranks of a job meet: every rank hands in its endpoint and gets those of all.

Each rank publishes one *member* (its host and its endpoint) and rank 0, which has read them all,
publishes one *table* (all members and the job's key): 2N messages in all. Three ways lead there:
the HTTP store of `horovodrun` (here), sockets that rank 0 serves (`_meeting`), and mpi4py
(`_mpi`).
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from tf_fasthvd import _topology
from tf_fasthvd._errors import HorovodInternalError

DEFAULT_TIMEOUT_S = 30.0
# The other ranks wait this much longer than rank 0, so that they learn from it who is missing.
GRACE_S = 2.0


class StartTimeoutError(HorovodInternalError):
    """Some ranks did not arrive in time."""


class RanksMissing(Exception):  # noqa: N818 (never seen by callers)
    """Raised by `Rendezvous.follow` at its deadline.

    Attributes:
        ranks: Those that did not arrive, as far as can be told.
    """

    def __init__(self, ranks: Sequence[int]):
        super().__init__()
        self.ranks = ranks


@dataclass(frozen=True)
class Member:
    """What one rank tells the others.

    Attributes:
        host: A name that tells hosts apart.
        endpoint: Where the rank's runtime listens; only the runtime reads it.
    """

    host: str
    endpoint: str


@dataclass(frozen=True)
class Table:
    """All members in rank order, and the secret (64 hexadecimal digits) of this job."""

    members: tuple[Member, ...]
    key: str


class Rendezvous(Protocol):
    """A way to meet."""

    def lead(self, member: bytes, deadline: float) -> list[bytes | None]:
        """On rank 0: the members of all ranks; None for those that did not arrive in time."""

    def answer(self, table: bytes) -> None:
        """On rank 0, after `lead`: hands the table to all ranks that arrived."""

    def follow(self, member: bytes, deadline: float) -> bytes:
        """On every other rank: hands in the member and returns the table.

        Raises:
            RanksMissing: There is no table at the deadline.
        """


def timeout_s(environment: Mapping[str, str] = os.environ) -> float:
    """How long `init()` waits for the other ranks, in seconds."""
    for name in ("FASTHVD_START_TIMEOUT", "HOROVOD_GLOO_TIMEOUT_SECONDS"):
        text = environment.get(name)
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if value <= 0:
            raise ValueError(f"{name}={text} is not a positive number of seconds.")
        return value
    return DEFAULT_TIMEOUT_S


def choose(topology: _topology.Topology, generation: int) -> Rendezvous:
    """The way to meet that fits the launcher.

    Args:
        topology: The place of this rank.
        generation: How often this process has called `init()` before, the same on all ranks.
    """
    from tf_fasthvd import _meeting, _mpi

    store = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    if topology.launcher == _topology.HOROVODRUN and store:
        port = int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
        return HttpRendezvous(store, port, topology.rank, topology.size, generation)
    address = os.environ.get("FASTHVD_RENDEZVOUS")
    if address:
        return _meeting.over_tcp(address, topology.rank, topology.size, generation)
    if topology.launcher == _topology.MPI and _mpi.usable(topology.rank, topology.size):
        return _mpi.MpiRendezvous(topology.rank, topology.size)
    if topology.local_size == topology.size:
        return _meeting.in_host(_topology.job_id(), topology.rank, topology.size, generation)
    raise ValueError(
        "the ranks have no place to meet: install mpi4py (jobs of mpirun), or set "
        "FASTHVD_RENDEZVOUS=host:port to an address of rank 0's host that all hosts reach."
    )


def exchange(topology: _topology.Topology, generation: int, member: Member) -> Table:
    """Hands in this rank's member, waits for all others and returns the table.

    Raises:
        StartTimeoutError: Some ranks did not arrive; every rank that did is told which.
    """
    if topology.size == 1:
        return Table((member,), secrets.token_hex(32))
    wait_s = timeout_s()
    deadline = time.monotonic() + wait_s
    rendezvous = choose(topology, generation)
    mine = json.dumps(asdict(member)).encode()
    if topology.rank != 0:
        try:
            return _read_table(rendezvous.follow(mine, deadline + GRACE_S))
        except RanksMissing as error:
            raise StartTimeoutError(_missing_text(error.ranks, topology.size, wait_s)) from None
    members = rendezvous.lead(mine, deadline)
    missing = [rank for rank, other in enumerate(members) if other is None]
    if missing:
        error = _missing_text(missing, topology.size, wait_s)
        rendezvous.answer(json.dumps({"error": error}).encode())
        raise StartTimeoutError(error)
    key = secrets.token_hex(32)
    answer = json.dumps({"key": key, "members": [json.loads(other) for other in members]}).encode()
    rendezvous.answer(answer)
    return _read_table(answer)


def _missing_text(missing: Sequence[int], size: int, wait_s: float) -> str:
    """The message about ranks that did not arrive."""
    ranks = ", ".join(map(str, missing))
    return (
        f"{'rank' if len(missing) == 1 else 'ranks'} {ranks} of {size} did not call "
        f"tf_fasthvd.init() within {wait_s:g} s; look for an error in their output, or raise "
        "FASTHVD_START_TIMEOUT (or HOROVOD_GLOO_TIMEOUT_SECONDS) if they only start slowly."
    )


def pauses(deadline: float, first_s: float = 0.01, longest_s: float = 0.25) -> Iterator[None]:
    """Sleeps between tries, longer each time, and ends at the deadline (of `time.monotonic`)."""
    pause = first_s
    while (left := deadline - time.monotonic()) > 0:
        yield
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, longest_s)


def _read_table(text: bytes) -> Table:
    answer = json.loads(text)
    if "error" in answer:
        raise StartTimeoutError(answer["error"])
    return Table(tuple(Member(**member) for member in answer["members"]), answer["key"])


class HttpRendezvous:
    """Meets through the HTTP store of Horovod's launcher: `PUT` and `GET` of /scope/key."""

    _REQUEST_TIMEOUT_S = 10.0

    def __init__(self, host: str, port: int, rank: int, size: int, generation: int):
        self._address = (host, port)
        self._rank = rank
        self._size = size
        self._scope = f"fasthvd_{generation}"

    def lead(self, member: bytes, deadline: float) -> list[bytes | None]:
        members: list[bytes | None] = [member]
        self._put("member_0", member, deadline)
        for rank in range(1, self._size):
            found = self._wait(f"member_{rank}", deadline)
            # At the deadline one more look tells which of the rest are there.
            members.append(found if found is not None else self._get(f"member_{rank}"))
        return members

    def answer(self, table: bytes) -> None:
        self._put("table", table, time.monotonic() + self._REQUEST_TIMEOUT_S)

    def follow(self, member: bytes, deadline: float) -> bytes:
        self._put(f"member_{self._rank}", member, deadline)
        table = self._wait("table", deadline)
        if table is None:
            raise RanksMissing(
                [rank for rank in range(self._size) if self._get(f"member_{rank}") is None] or [0]
            )
        return table

    def _wait(self, key: str, deadline: float) -> bytes | None:
        for _ in pauses(deadline):
            value = self._get(key)
            if value is not None:
                return value
        return None

    def _get(self, key: str) -> bytes | None:
        """The value of `key`, or None if it is not there yet or the store does not answer."""
        try:
            status, body = self._request("GET", key, None)
        except (OSError, http.client.HTTPException):
            return None
        return body if status == http.client.OK else None

    def _put(self, key: str, value: bytes, deadline: float) -> None:
        error: object = "no answer"
        for _ in pauses(deadline):
            try:
                status, _ = self._request("PUT", key, value)
            except (OSError, http.client.HTTPException) as failure:
                error = failure
                continue
            if status == http.client.OK:
                return
            error = f"HTTP status {status}"
        host, port = self._address
        raise StartTimeoutError(
            f"rank {self._rank} could not reach the launcher's rendezvous server at {host}:{port}: "
            f"{error}; check that the hosts reach each other there."
        )

    def _request(self, method: str, key: str, body: bytes | None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._address, timeout=self._REQUEST_TIMEOUT_S)
        try:
            connection.request(method, f"/{self._scope}/{key}", body=body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
