from __future__ import annotations

import ipaddress

import pytest

from tf_fasthvd import _interfaces
from tf_fasthvd._topology import Topology

ONE_HOST = Topology("test", 0, 2, local_rank=0, local_size=2)
TWO_HOSTS = Topology("test", 0, 2, local_rank=0, local_size=1)


def test_one_rank_listens_nowhere():
    assert _interfaces.listen_addresses(Topology("test", 0, 1), {"FASTHVD_IFACE": "nonsense"}) == []


def test_ranks_of_one_host_use_the_loopback():
    for environment in ({}, {"HOROVOD_GLOO_IFACE": "eth0"}):
        (address,) = _interfaces.listen_addresses(ONE_HOST, environment)
        assert ipaddress.ip_address(address).is_loopback


def test_the_launchers_interface():
    addresses = _interfaces.listen_addresses(TWO_HOSTS, {"HOROVOD_GLOO_IFACE": "lo"})
    assert addresses[0] == "127.0.0.1"


def test_several_interfaces_of_ones_own():
    environment = {"HOROVOD_GLOO_IFACE": "nonsense", "FASTHVD_IFACE": "lo, lo"}
    once = _interfaces.interface_addresses("lo")
    assert _interfaces.listen_addresses(ONE_HOST, environment) == once + once


def test_unknown_interface_is_named():
    with pytest.raises(ValueError, match="no network interface 'nonsense'.*lo"):
        _interfaces.listen_addresses(TWO_HOSTS, {"FASTHVD_IFACE": "nonsense"})


def test_some_numeric_address_without_any_setting():
    (address,) = _interfaces.listen_addresses(TWO_HOSTS, {})
    ipaddress.ip_address(address)


def test_the_address_towards_the_meeting_place():
    environment = {"FASTHVD_RENDEZVOUS": "[2001:db8::1]:5000"}
    (address,) = _interfaces.listen_addresses(TWO_HOSTS, environment)
    ipaddress.ip_address(address)
