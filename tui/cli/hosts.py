"""The host names under which a web server on this machine may be asked."""

import ipaddress
import re
from collections.abc import Collection

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d+)?")


def is_allowed(host: str, listening: str, further: Collection[str]) -> bool:
    """Whether a request with the header `Host: {host}` may be answered by a server that listens on `listening`.

    Allowed are the loopback names, `listening` and the `further` names. A server that listens on all addresses also
    takes any literal address: a name that a site points here is not one.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["six"] or found["name"]).lower()
    if name in {*LOOPBACK_NAMES, listening.lower(), *(one.lower() for one in further)}:
        return True
    everywhere = _is_address(listening) and ipaddress.ip_address(listening).is_unspecified
    return everywhere and _is_address(name)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
