"""What the columns of a store mean: `columns.json`, for people and other programs.

In the footer of each file, units and meanings would take more room than all the rest. So a store
has them once. tonframes itself does not read them; `describe` has the same.
"""

from __future__ import annotations

import json

from tonframes.store.files import FOLDERS, table_of
from tonframes.wire import schema
from tonframes.wire.record import api_path

#: The file with the columns of each folder.
COLUMNS = "columns.json"


def encoded() -> bytes:
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
