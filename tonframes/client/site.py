"""The address of a service, and what follows from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Site:
    """The address of a service, and what follows from it.

    Attributes
    ----------
    url
        Scheme, host, port and path, without a slash at the end.
    host
        The host alone, in lower case.
    """

    url: str
    host: str

    @classmethod
    def parse(cls, text: str) -> Site:
        """Check a base URL and split it. Errors do not quote it, because it may contain a secret.

        Examples
        --------
        >>> Site.parse("https://TonCenter.com/api/v3/")
        Site(url='https://toncenter.com', host='toncenter.com')
        >>> Site.parse("http://[::1]:8081").is_loopback
        True
        """
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
        if re.search(r"api_?key", parts.query, re.IGNORECASE):
            raise ValueError(
                "base_url contains an API key, which logs would show; pass it as api_key"
            )
        if "?" in text or "#" in text:
            raise ValueError("base_url must not contain ? or #")
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

    @property
    def keeps_secrets(self) -> bool:
        """Whether a key may be sent: the connection is encrypted, or stays on this computer."""
        return self.url.startswith("https:") or self.is_loopback
