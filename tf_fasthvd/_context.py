"""The runtime of this process: its start, its end, and the rank's place in the job."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Sequence
from typing import Any

from tf_fasthvd import _interfaces, _rendezvous, _tensorflow_threads, _topology
from tf_fasthvd._errors import FORKED, NOT_INITIALIZED, HorovodInternalError
from tf_fasthvd._loader import LANE_PROGRAM_PATH, load
from tf_fasthvd._topology import Topology

_ENDPOINT_BYTES = 1 << 16

# Numbers of StatusCode in runtime/base/status.h whose Python exception is not RuntimeError.
_EXCEPTIONS: dict[int, type[Exception]] = {
    1: ValueError,  # kInvalidArgument
    3: NotImplementedError,  # kUnimplemented
    4: HorovodInternalError,  # kDeadlineExceeded
    5: HorovodInternalError,  # kPeerLost
}


class Context:
    """Starts and stops the native runtime; the one object that knows whether it runs.

    Thread-safe: starting and stopping exclude each other, and readers see either a complete
    place or none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topology: Topology | None = None
        self._generation = 0
        self._forked_from: int | None = None  # The rank whose forked child this process is.

    @property
    def running(self) -> bool:
        return self._topology is not None

    @property
    def topology(self) -> Topology:
        """The place of this rank, complete.

        Raises:
            ValueError: The runtime is not running, or runs in the process that forked this one.
        """
        topology = self._topology
        if topology is None:
            self._check_not_forked()
            raise ValueError(NOT_INITIALIZED)
        return topology

    def start(self) -> None:
        """Meets the other ranks and connects to them; nothing if it runs already."""
        with self._lock:
            if self._topology is not None:
                return
            self._check_not_forked()
            native = load().c
            topology = _topology.detect()
            spin = _tensorflow_threads.may_spin()
            generation, self._generation = self._generation, self._generation + 1
            host = _topology.host_name()
            try:
                endpoint = _listen(host, _interfaces.listen_addresses(topology))
                member = _rendezvous.Member(host, endpoint)
                table = _rendezvous.exchange(topology, generation, member)
                endpoints = "\n".join(other.endpoint for other in table.members)
                _check(
                    native.fasthvd_start(
                        topology.rank, topology.size, endpoints.encode(), table.key.encode()
                    )
                )
            except BaseException:
                native.fasthvd_shutdown()  # Closes what listens.
                raise
            self._topology = topology.placed([other.host for other in table.members])
            alone = self._topology.local_size == 1
            if not (alone if spin is None else spin):
                _tensorflow_threads.stop_spinning(topology.rank)

    def stop(self) -> None:
        """Leaves the job in order; nothing if it does not run."""
        with self._lock:
            if self._topology is None:
                return
            self._topology = None
            _check(load().c.fasthvd_shutdown())

    def on_forked_child(self) -> None:
        """Forgets, in a forked child, the runtime, whose threads only the parent has."""
        self._lock = threading.Lock()  # A thread that the child does not have may hold it.
        if self._topology is not None:
            self._forked_from = self._topology.rank
            self._topology = None

    def _check_not_forked(self) -> None:
        if self._forked_from is not None:
            raise ValueError(FORKED.format(rank=self._forked_from))


def _listen(host: str, addresses: Sequence[str]) -> str:
    endpoint = ctypes.create_string_buffer(_ENDPOINT_BYTES)
    _check(
        load().c.fasthvd_listen(
            host.encode(),
            ",".join(addresses).encode(),
            os.fsencode(LANE_PROGRAM_PATH),
            endpoint,
            _ENDPOINT_BYTES,
        )
    )
    return endpoint.value.decode()


def _check(code: int) -> None:
    """Raises the exception for a status of the native runtime, unless it is ok."""
    if code == 0:
        return
    text = load().c.fasthvd_last_error().decode(errors="replace")
    raise _EXCEPTIONS.get(code, RuntimeError)(text)


context = Context()
atexit.register(context.stop)
os.register_at_fork(after_in_child=context.on_forked_child)


def init(process_sets: Any = None) -> None:
    """Joins the job: waits for all ranks and connects to them. Does nothing when called again.

    Args:
        process_sets: Not supported yet; leave it out.

    Raises:
        HorovodInternalError: Some ranks did not arrive in time; the message names them.
        ValueError: A setting in the environment is wrong.
    """
    if process_sets:
        raise NotImplementedError(
            "init(process_sets=...) is not supported yet; call init() and use all ranks."
        )
    context.start()


def shutdown() -> None:
    """Leaves the job; `init()` may be called again. Runs by itself when the process ends."""
    context.stop()


def is_initialized() -> bool:
    """Whether `init()` has been called, and `shutdown()` not since."""
    return context.running


def rank() -> int:
    """This process's number in the job, from 0."""
    return context.topology.rank


def size() -> int:
    """The number of processes in the job."""
    return context.topology.size


def local_rank() -> int:
    """This process's number among those of its host, from 0."""
    return context.topology.local_rank


def local_size() -> int:
    """The number of the job's processes on this host."""
    return context.topology.local_size


def cross_rank() -> int:
    """The number of this host among those that have a process of this local rank, from 0."""
    return context.topology.cross_rank


def cross_size() -> int:
    """The number of hosts that have a process of this local rank."""
    return context.topology.cross_size


def is_homogeneous() -> bool:
    """Whether every host runs the same number of processes."""
    return context.topology.homogeneous
