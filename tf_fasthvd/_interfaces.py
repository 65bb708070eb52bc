"""Which of this host's addresses the runtime listens on."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Mapping

from tf_fasthvd._topology import Topology

_SIOCGIFADDR = 0x8915
_LOOPBACK = ("127.0.0.1", "::1")


def listen_addresses(topology: Topology, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Numeric addresses to listen on, the best first.

    One rank alone needs none. FASTHVD_IFACE names the interfaces to use (several allowed);
    without it, ranks of one host use the loopback; ranks of several hosts use the interface that
    horovodrun chose (HOROVOD_GLOO_IFACE) or the one towards the other hosts.

    Raises:
        ValueError: An interface that was asked for does not exist or has no address.
    """
    if topology.size == 1:
        return []
    chosen = environment.get("FASTHVD_IFACE")
    if not chosen and topology.local_size == topology.size:
        return [_loopback()]
    chosen = chosen or environment.get("HOROVOD_GLOO_IFACE")
    if chosen:
        addresses = []
        for name in filter(None, map(str.strip, chosen.split(","))):
            addresses += interface_addresses(name)
        return addresses
    return [_address_towards(environment.get("FASTHVD_RENDEZVOUS", ""))]


def interface_addresses(name: str) -> list[str]:
    """The addresses of one interface: its IPv4 address, then its IPv6 ones that others can use."""
    if name not in (known := [interface for _, interface in socket.if_nameindex()]):
        raise ValueError(
            f"this host has no network interface '{name}' (it has {', '.join(known)}); correct "
            "FASTHVD_IFACE or HOROVOD_GLOO_IFACE."
        )
    addresses = _ipv4_addresses(name) + _ipv6_addresses(name)
    if not addresses:
        raise ValueError(
            f"network interface '{name}' has no address; name another one in FASTHVD_IFACE."
        )
    return addresses


def _ipv4_addresses(name: str) -> list[str]:
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            answer = fcntl.ioctl(control.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return []
            raise
    return [socket.inet_ntoa(answer[20:24])]


def _ipv6_addresses(name: str) -> list[str]:
    """The addresses of `name` except link-local ones, which need a scope to be of use."""
    try:
        with open("/proc/net/if_inet6") as file:
            rows = [line.split() for line in file]
    except FileNotFoundError:
        return []
    addresses = [ipaddress.IPv6Address(bytes.fromhex(row[0])) for row in rows if row[5] == name]
    return [str(address) for address in addresses if not address.is_link_local]


def _loopback() -> str:
    """The loopback address that exists here; containers may lack the one of IPv4."""
    for address, family in zip(_LOOPBACK, (socket.AF_INET, socket.AF_INET6), strict=True):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                continue
            return address
    raise ValueError("this host has no loopback interface that is up; bring `lo` up.")


def _address_towards(rendezvous: str) -> str:
    """This host's address on the way to the rendezvous, or to the outside without one.

    Connecting a datagram socket sends nothing; it only asks the routing table.
    """
    host = rendezvous.rpartition(":")[0].strip("[]")
    # Addresses kept for documentation: only the default route leads there.
    candidates = [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")]
    if host:
        family, _, _, _, where = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        candidates.insert(0, (family, where[0]))
    for family, target in candidates:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((target, 9))
            except OSError:
                continue
            address = probe.getsockname()[0]
        if not ipaddress.ip_address(address).is_loopback:
            return address
    for _, name in socket.if_nameindex():
        if name != "lo" and (addresses := _ipv4_addresses(name) + _ipv6_addresses(name)):
            return addresses[0]
    return _loopback()
