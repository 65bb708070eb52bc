"""Every way to meet, with the ranks as threads."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tf_fasthvd import _meeting, _rendezvous
from tf_fasthvd._topology import Topology

_jobs = itertools.count()


@pytest.fixture
def http_store():
    http_server = pytest.importorskip("horovod.runner.http.http_server")
    server = http_server.RendezvousServer()
    port = server.start()
    server.init([])
    yield port
    server.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(params=["http", "tcp", "tcp6", "unix"])
def make(request):
    """A function (rank, size, generation) → the rank's end of one kind of rendezvous."""
    if request.param == "http":
        port = request.getfixturevalue("http_store")
        return lambda rank, size, generation=0: _rendezvous.HttpRendezvous(
            "127.0.0.1", port, rank, size, generation
        )
    if request.param == "unix":
        job = f"test-{os.getpid()}-{next(_jobs)}"
        return lambda rank, size, generation=0: _meeting.in_host(job, rank, size, generation)
    host = "127.0.0.1" if request.param == "tcp" else "[::1]"
    address = f"{host}:{free_port()}"
    return lambda rank, size, generation=0: _meeting.over_tcp(address, rank, size, generation)


@pytest.fixture
def meet(monkeypatch):
    """Lets ranks meet through `make` and returns what `exchange` gives to each."""

    def run(make, size, absent=(), generation=0, timeout="1", late=()):
        monkeypatch.setenv("FASTHVD_START_TIMEOUT", timeout)
        monkeypatch.setattr(
            _rendezvous, "choose", lambda place, generation: make(place.rank, size, generation)
        )

        def one(rank):
            if rank in late:
                time.sleep(0.3)
            member = _rendezvous.Member(f"host{rank % 2}", f'endpoint of {rank}\twith "quotes"')
            try:
                return _rendezvous.exchange(Topology("test", rank, size), generation, member)
            except _rendezvous.StartTimeoutError as error:
                return str(error)

        ranks = [rank for rank in range(size) if rank not in absent]
        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(one, ranks))

    return run


@pytest.mark.parametrize("late", [(), (0,), (1,)])
def test_all_get_the_same_table(make, meet, late):
    tables = meet(make, 4, timeout="20", late=late)
    assert all(table == tables[0] for table in tables)
    assert [member.host for member in tables[0].members] == ["host0", "host1", "host0", "host1"]
    assert tables[0].members[3].endpoint == 'endpoint of 3\twith "quotes"'
    assert len(bytes.fromhex(tables[0].key)) == 32


def test_they_meet_again(make, meet):
    keys = {meet(make, 3, generation=generation, timeout="20")[1].key for generation in range(3)}
    assert len(keys) == 3


def test_all_learn_who_is_missing(make, meet):
    start = time.monotonic()
    errors = meet(make, 5, absent=(2, 4))
    assert time.monotonic() - start < 3 + _rendezvous.GRACE_S
    for error in errors:
        assert "ranks 2, 4 of 5 did not call tf_fasthvd.init() within 1 s" in error


def test_rank_0_missing(make, meet, monkeypatch):
    monkeypatch.setattr(_rendezvous, "GRACE_S", 0.3)
    for error in meet(make, 3, absent=(0,)):
        assert "rank 0 of 3 did not call tf_fasthvd.init() within 1 s" in error


def test_one_rank_needs_no_meeting():
    member = _rendezvous.Member("here", "nowhere")
    table = _rendezvous.exchange(Topology("test", 0, 1), 0, member)
    assert table.members == (member,)


def test_strangers_do_not_disturb(meet):
    """Garbage, silence, a wrong rank and a wrong generation at the socket of rank 0."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    open_connections = []

    def disturb():
        for text in (
            b"GET / HTTP/1.0\r\n\r\n",
            b"\0\xff\n",
            b'{"rank": 9, "generation": 0, "member": "{}"}\n',
            b'{"rank": 1, "generation": 7, "member": "{}"}\n',
            b'{"rank": [], "generation": 0, "member": "{}"}\n',
            b"",
        ):
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                try:
                    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
                except OSError:
                    time.sleep(0.01)
                    continue
                connection.sendall(text)
                open_connections.append(connection)
                break

    disturber = threading.Thread(target=disturb)
    disturber.start()
    tables = meet(
        lambda rank, size, generation: _meeting.over_tcp(address, rank, size, generation),
        3,
        timeout="20",
        late=(1,),
    )
    disturber.join()
    for connection in open_connections:
        connection.close()
    assert [member.endpoint[:13] for member in tables[1].members] == [
        f"endpoint of {rank}" for rank in range(3)
    ]


def test_waiting_is_not_busy(make, meet):
    before = time.process_time()
    meet(make, 3, absent=(2,), timeout="1")
    assert time.process_time() - before < 0.5


@pytest.mark.parametrize("text", ["0", "-3", "soon"])
def test_wrong_timeout_is_named(text):
    with pytest.raises(ValueError, match=f"HOROVOD_GLOO_TIMEOUT_SECONDS={text}"):
        _rendezvous.timeout_s({"HOROVOD_GLOO_TIMEOUT_SECONDS": text})


def test_timeout_settings():
    assert _rendezvous.timeout_s({}) == _rendezvous.DEFAULT_TIMEOUT_S
    assert _rendezvous.timeout_s({"HOROVOD_GLOO_TIMEOUT_SECONDS": "7"}) == 7
    both = {"FASTHVD_START_TIMEOUT": "3", "HOROVOD_GLOO_TIMEOUT_SECONDS": "7"}
    assert _rendezvous.timeout_s(both) == 3


def test_several_hosts_without_a_meeting_place(monkeypatch):
    from tf_fasthvd import _mpi

    monkeypatch.delenv("FASTHVD_RENDEZVOUS", raising=False)
    monkeypatch.setattr(_mpi, "usable", lambda rank, size: False)
    place = Topology("mpi", 0, 4, local_rank=0, local_size=2)
    with pytest.raises(ValueError, match="mpi4py.*FASTHVD_RENDEZVOUS"):
        _rendezvous.choose(place, 0)


@pytest.mark.parametrize("address", ["nowhere", "host:", ":80", "host:x"])
def test_malformed_meeting_place(address):
    with pytest.raises(ValueError, match="host:port"):
        _meeting.over_tcp(address, 0, 2, 0)
