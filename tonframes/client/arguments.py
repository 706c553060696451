"""Checks of what a client is given, before anything is sent."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from tonframes.errors import shorten


@dataclass(frozen=True, slots=True)
class Site:
    """The address of a service: its URL without a slash at the end, and the host in lower case."""

    url: str
    host: str

    @classmethod
    def parse(cls, text: str) -> Site:
        """Check a base URL and split it; errors do not quote it: it may contain a secret."""
        if not isinstance(text, str):
            raise TypeError(f"base_url is a str, not {type(text).__name__}")
        if re.search(r"\s", text):  # urlsplit leaves line breaks out
            raise ValueError("base_url contains white space")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError("base_url is not a URL: its host or port is invalid") from None
        if parts.scheme not in {"http", "https"}:
            raise ValueError("base_url must start with https:// or http://")
        if "@" in parts.netloc:
            raise ValueError("base_url contains a user name or password; pass a key as api_key")
        if "?" in text or "#" in text:
            raise ValueError("base_url must not contain ? or #; pass a key as api_key")
        if not re.fullmatch(r"[\w.-]+|[0-9a-f:.]+", host) or not re.fullmatch(
            r"[!-\[\]-~]*", parts.path
        ):
            raise ValueError("base_url must have a host, and no space or backslash in its path")
        netloc = f"[{host}]" if ":" in host else host
        netloc += "" if port is None else f":{port}"
        path = re.sub(r"(/api/v3)?/*$", "", parts.path.rstrip("/"))
        return cls(f"{parts.scheme}://{netloc}{path}", host)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this computer itself."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_ton_center(self) -> bool:
        """Whether it is TON Center, mainnet or testnet."""
        return self.host == "toncenter.com" or self.host.endswith(".toncenter.com")


def checked_addresses(addresses: Sequence[str]) -> Sequence[str]:
    """Check a list of addresses; the error names the position of a wrong one."""
    if isinstance(addresses, str | bytes) or not isinstance(addresses, Sequence):
        raise TypeError(f"addresses is a list of str, not {type(addresses).__name__}")
    if not addresses:
        raise ValueError("addresses is empty")
    for position, address in enumerate(addresses, 1):
        name = f"address {position} of {len(addresses)}"
        if not isinstance(address, str):
            raise TypeError(f"{name} is a str, not {type(address).__name__}")
        # For an empty address the deployed service answers with arbitrary accounts; it splits an
        # address at a comma into two.
        if not re.fullmatch(r"[!-+\--~]+", address):
            raise ValueError(
                f"{name}, {shorten(address)}, is empty or contains a character that no address "
                "has: a space, a comma, or one outside ASCII"
            )
    return list(addresses)


def check_whole(value: object, name: str, allowed: range) -> None:
    """Check that an argument is an int within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {type(value).__name__}")
    if value not in allowed:
        raise ValueError(f"{name} is from {allowed[0]} to {allowed[-1]}, not {shorten(value)}")


def positive(value: float, name: str, *, most: float = 10.0**6) -> float:
    """Check that an argument is a number greater than 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number, not {type(value).__name__}")
    if not 0 < value <= most:
        bounds = "greater than 0" + (f" and at most {most:g}" if math.isfinite(most) else "")
        raise ValueError(f"{name} is {bounds}, not {value:g}")
    return float(value)
