"""HOST:PORT, and what can be said about it before TVM is asked."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from relay_int8.argument_types import checked
from relay_int8.errors import ConfigError, DeployError
from relay_int8.messages import unreadable

CONNECT_S = 5.0


@checked
@dataclass(frozen=True)
class Address:
    """Where something listens; prints as HOST:PORT."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the address that ``text`` names.

        Examples
        --------
        >>> Address.parse("[::1]:9090")
        Address(host='::1', port=9090)

        Raises
        ------
        ConfigError
            If it is not HOST:PORT.
        """
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"{text!r} is no address; HOST:PORT expected, e.g. 127.0.0.1:9090")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def check_known(self) -> None:
        """Raise a DeployError if there is no computer of this name."""
        try:
            socket.getaddrinfo(self.host, self.port)
        except socket.gaierror as error:
            raise DeployError(
                f"{self}: no computer of that name is known ({error.strerror}); mend the name, or "
                "give its IP address"
            ) from error

    def check_free(self) -> None:
        """Raise a DeployError if nothing can listen here, as where the port is in use."""
        self.check_known()
        family, kind, _, _, where = socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(where)
            except OSError as error:
                raise DeployError(
                    f"{self}: cannot listen there ({error.strerror}); name another "
                    "ServeOptions(port=...), or 0 for any that is free"
                ) from error

    def check_listening(self, what: str, remedy: str) -> None:
        """Raise a DeployError if nothing accepts connections here."""
        self.check_known()
        try:
            socket.create_connection((self.host, self.port), CONNECT_S).close()
        except OSError as error:
            raise DeployError(
                f"{self}: no {what} answers ({unreadable(error)}); {remedy}"
            ) from error


@checked
@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a device is to be had, or several of one kind.

    Parameters
    ----------
    address
        Of ``relay-int8 serve``, of a proxy, or of a tracker.
    tracker
        Whether it is a tracker's.
    key
        Of the device; a tracker needs one.
    """

    address: Address
    tracker: bool = False
    key: str = ""

    def __post_init__(self) -> None:
        if self.tracker and not self.key:
            raise ConfigError(
                "a tracker has devices of many kinds; name one with Endpoint(key=...)"
            )

    def __str__(self) -> str:
        return f"{self.address}, key {self.key!r}" if self.key else f"{self.address}"


def is_loopback(host: str) -> bool:
    """Return whether only this computer can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
