"""Where do the ranks of a gang meet? At an address and a port of the first rank's machine, kept free."""

from __future__ import annotations

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915
_NAME = 16
_ADDRESS = slice(20, 24)


class HeldPort:
    """A free port that nobody else is given before the first rank listens on it.

    Bound without listening: of two sockets that may both reuse the address, the second can still listen.
    """

    def __init__(self, address: str | None) -> None:
        """At `address`, if that is this machine's; else at the one that the name of this machine has."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((address or "", 0))
        except OSError:
            address = None
            self._socket.bind(("", 0))
        self.port: int = self._socket.getsockname()[1]
        self.address = address or _address_of_name()

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()


def interface_towards(address: str) -> str | None:
    """The network interface by which this machine reaches an address; None if that cannot be told."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing
            own = probe.getsockname()[0]
            names = [name for _, name in socket.if_nameindex() if _address_of(probe, name) == own]
    except OSError:
        return None
    if not names and own.startswith("127."):
        return "lo"
    return names[0] if names else None


def _address_of(probe: socket.socket, interface: str) -> str | None:
    asked = struct.pack("256s", interface.encode()[: _NAME - 1])
    try:
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, asked)[_ADDRESS])
    except OSError:
        return None


def _address_of_name() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
