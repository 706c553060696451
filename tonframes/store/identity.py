"""Which network a store is of, in `network.json`; what its columns mean, in `columns.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tonframes.errors import StoreError
from tonframes.store.files import FOLDERS, refuse_newer, table_of
from tonframes.wire import schema
from tonframes.wire.record import api_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The file in which a store says of which network it is. It has a hash of its other members.
NETWORK = "network.json"
#: The file with the columns of each folder, for people and other programs: in the footer of each
#: file, units and meanings would take more room than all the rest.
COLUMNS = "columns.json"

#: What stores of made-up data say in place of a service: nothing more can be fetched into them.
MADE_UP = "made up by tonframes"

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


def read_info(store: Path) -> StoreInfo | None:
    """Read what a store, or a bucket, says of itself; None if there is no store."""
    file = store / NETWORK
    try:
        said = json.loads(file.read_bytes())
        seal = said.pop("seal")
        info = StoreInfo(said["network"], said["service"], said["schema"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror or error}", path=file) from error
    except (ValueError, KeyError, TypeError, AttributeError):
        seal = None
    if seal is None or seal != _seal(said):
        raise StoreError(
            f"{file} does not say which network the store is of: delete it, and the next fetch "
            "into the store writes it anew",
            path=file,
        )
    refuse_newer(store, info.schema)
    return info


def _seal(said: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def meanings() -> bytes:
    """Return the content of `columns.json`, with a line for each column."""
    folders = []
    for folder in FOLDERS:
        columns = [
            json.dumps(
                {
                    "column": column.name,
                    "dtype": column.dtype,
                    "unit": column.unit,
                    "meaning": column.meaning.removeprefix("+ "),
                    "api_path": api_path(column),
                },
                ensure_ascii=False,
            )
            for column in table_of(folder).columns
        ]
        lines = ",\n    ".join(columns)
        folders.append(f'  "{folder}": [\n    {lines}\n  ]')
    said = ",\n".join([f'  "schema": {schema.VERSION}', *folders])
    return f"{{\n{said}\n}}\n".encode()
