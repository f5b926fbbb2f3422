"""How does a client get to the service? By its address, through the proxies of the environment or past."""

import os
from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

import httpx

from tuner.errors import RequestError

ANSWER_S = 30.0
"""How long one answer may take, beside what the service was asked to wait."""
_CONNECT_S = 10.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def read_address(url: str, *, key: str | None) -> httpx.URL:
    """The address of a service; raises RequestError for what is none, or would take the place of the key."""
    address = _read(url)
    if key and address.userinfo:
        raise RequestError(
            f"the address of the service, {shown(address)}, has a user and password before it: they would be "
            "sent in place of the key. Leave out one of them"
        )
    return address


def shown(url: httpx.URL) -> str:
    """An address as it may be told: without user and password."""
    return str(url.copy_with(userinfo=b""))


def connect(
    address: httpx.URL, *, headers: dict[str, str], transport: httpx.BaseTransport | None
) -> httpx.Client:
    """A client that goes through the proxies of the environment, but not from this host to itself.

    Raises RequestError where the environment names proxies or certificates that cannot be used.
    """
    exceptions = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    direct = address.host in _LOOPBACK or is_direct(address.host, exceptions)
    try:
        return httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(ANSWER_S, connect=_CONNECT_S),
            # Certificates are those of the environment, whatever is said of proxies.
            verify=httpx.create_ssl_context() if address.scheme == "https" else True,
            trust_env=not direct,
            transport=transport,
        )
    except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
        raise RequestError(
            "a proxy or certificate of the environment cannot be used (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, "
            f"NO_PROXY, SSL_CERT_FILE): {error}. Unset it, or add {address.host} to NO_PROXY"
        ) from None


def is_direct(host: str, exceptions: str) -> bool:
    """Whether NO_PROXY names a host, a domain above it, or a network that it is in."""
    for part in (each.strip().lower() for each in exceptions.split(",")):
        name = part.removeprefix("*").lstrip(".")
        if part == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
        with suppress(ValueError):
            if ip_address(host) in ip_network(part.strip("[]"), strict=False):
                return True
    return False


def _read(url: str) -> httpx.URL:
    with suppress(ValueError, httpx.InvalidURL):
        parts = urlsplit(url.strip())
        # Reading the port checks it.
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return httpx.URL(url.strip().rstrip("/"))
    raise RequestError(f"{url[:200]!r} is not the address of a service, such as http://127.0.0.1:8000")
