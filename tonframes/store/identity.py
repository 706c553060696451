"""Which network a store is of: `network.json`, and what the footers of its files say of it.

`network.json` has a seal, which is a hash of its other members. If it is damaged or gone, the
footers have the same content, so nothing is lost.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tonframes import sealed
from tonframes.errors import StoreError, shorten, warn
from tonframes.regular import irregular
from tonframes.store.files import FOLDERS, Damaged, is_table_file, reading, refuse_newer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: The file in which a store says of which network it is.
NETWORK = "network.json"

#: What stores of made-up data say in place of a service: nothing more can be fetched into them.
MADE_UP = "made up by tonframes.synthetic"

#: Names of networks, by the `global_id` of their blocks.
NETWORKS = {-239: "mainnet", -3: "testnet"}


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store says of itself: `schema` is the newest version that its files may have."""

    network: str
    service: str | None
    schema: int


def encoded(info: StoreInfo) -> bytes:
    """Return the content of `network.json`."""
    said = asdict(info)
    return json.dumps(said | {"seal": _seal(said)}, indent=2).encode() + b"\n"


def decoded(content: bytes) -> StoreInfo | None:
    """Return what a `network.json` with a seal says; None if it is damaged."""
    try:
        said = json.loads(content)
        seal = said.pop("seal")
        info = StoreInfo(**said)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    known = isinstance(info.network, str) and type(info.schema) is int
    return info if known and seal == _seal(said) else None


def read_info(store: Path) -> StoreInfo | None:
    """Read what a store says of itself; None if there is no store.

    Raises
    ------
    StoreError
        It cannot be read, or a newer tonframes has written to the store.
    """
    info = _said(store)
    if info is None:
        info = _of_footers(store, _stamps(store))
        if info is None and (store / NETWORK).exists():
            raise StoreError(
                f"{store / NETWORK} does not say which network the store is of, and there are no "
                "files that do: it is no store of tonframes, or the file is damaged",
                path=store / NETWORK,
            )
    if info is not None:
        refuse_newer(store, info.schema)
    return info


def is_sealed(store: Path, info: StoreInfo) -> bool:
    """Return whether `network.json` says this, and has a seal."""
    try:
        return (store / NETWORK).read_bytes() == encoded(info)
    except FileNotFoundError:
        return False


def _said(store: Path) -> StoreInfo | None:
    """Return what `network.json` says; None if it is gone or damaged."""
    file = store / NETWORK
    try:
        if what := irregular(file):
            raise StoreError(f"{file} is {what}, not a file: move it elsewhere", path=file)
        said = json.loads(file.read_bytes())
        info = StoreInfo(str(said["network"]), str(said["service"]), int(said["schema"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror or error}", path=file) from error
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if said.keys() != asdict(info).keys():
        seal = said.pop("seal", None)
        return info if seal == _seal(said) else None
    # Older versions wrote no seal: the footer of a file must say the same.
    witness = next(_footers(store), None)
    return info if witness is None or witness.get("network") == info.network else None


def _seal(said: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


@lru_cache(16)  # a large store has many footers
def _of_footers(store: Path, _stamps: tuple[int, ...]) -> StoreInfo | None:
    """Return what the footers of a store say of it; None if it has no files."""
    footers = list(_footers(store))
    networks = Counter(str(footer.get("network")) for footer in footers)
    if not networks:
        return None
    if len(networks) > 1:
        raise StoreError(
            f"{store / NETWORK} is gone or damaged, and the files of the store are of the networks "
            f"{' and '.join(map(shorten, sorted(networks)))}: move those of one network elsewhere",
            path=store / NETWORK,
        )
    services = Counter(str(footer.get("service")) for footer in footers)
    versions = [v for footer in footers if type(v := footer.get("schema")) is int]
    warn(
        f"{store / NETWORK} is gone or damaged: its content was read from the footers of the files"
    )
    return StoreInfo(
        network=next(iter(networks)),
        service=services.most_common(1)[0][0],
        schema=max(versions, default=1),
    )


def _footers(store: Path) -> Iterator[Mapping[str, Any]]:
    """List what the files of a store say of themselves, without those that are damaged."""
    for folder in FOLDERS:
        for file in filter(lambda file: is_table_file(file.name), (store / folder).glob("*")):
            try:
                with reading(file), sealed.opened(file) as opened:
                    about = opened.about
            except Damaged:
                continue
            if about is not None and opened.sealed:
                yield about


def _stamps(store: Path) -> tuple[int, ...]:
    """Return when the folders of a store, and `network.json`, were last changed."""
    found = []
    for name in (NETWORK, *FOLDERS):
        try:
            found.append((store / name).stat().st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)
