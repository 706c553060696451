"""The results as Markdown tables, for the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Bytes in a MB and a GB, as disks are sold.
_MB, _GB = 1e6, 1e9


def as_markdown(found: Mapping[str, Any]) -> str:
    """Return tables of the stores, the questions and the helpers."""
    sizes = found["sizes"]
    begin = (
        f"Measured on {found['cores']} cores and {found['memory']} GB of memory, with "
        f"`make bench-scale`; the load average was {found['load']}. MB are the peak of memory. "
        "“Times by hand” is the processor's time, divided by that of a query written by hand on "
        "the same files. In place of a figure, “memory” says that the process came to its limit, "
        "which is 4 GB, or for DuckDB to 1.5 GB and could not spill the rest; “disk” that what was "
        "spilled filled the disk; “time” that it took too long. A dash is what was not measured."
    )
    return "\n\n".join(
        [
            begin,
            "### Stores",
            _table(["", *map(_titled, sizes)], _stores(sizes)),
            "### Questions",
            _table(_heading("question", sizes), _compared("questions", sizes)),
            "### Helpers",
            _table(_heading("helper", sizes), _compared("helpers", sizes)),
            "",
        ]
    )


def _titled(size: Mapping[str, Any]) -> str:
    return f"{size['millions']:g} million"


def _stores(sizes: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    def each(name: str, one: Any) -> list[str]:
        return [name, *(one(size) for size in sizes)]

    yield each("transactions", lambda s: f"{s['after']['transactions']['rows']:,}")
    yield each("messages", lambda s: f"{s['after']['messages']['rows']:,}")
    yield each("size", lambda s: f"{_bytes(s) / _GB:.1f} GB")
    for when, files in {"before": "files of a fetch", "after": "the whole store"}.items():
        for table in ("transactions", "messages"):
            yield [f"bytes a row of {table}, {files}", *(_per_row(s, when, table) for s in sizes)]
    yield each(
        "bytes a transaction with its messages and blocks",
        lambda s: f"{_bytes(s) / s['after']['transactions']['rows']:.0f}",
    )
    yield each("files", lambda s: f"{sum(t['files'] for t in s['after'].values()):,}")
    for step, name in _STEPS.items():
        yield [f"{name}, transactions a second", *(_rate(s, step) for s in sizes)]


#: What has a rate.
_STEPS = {
    "narrow": "made in files of a fetch, on all cores",
    "wide": "made in files of compaction, on all cores",
    "compaction": "compacted, in one process",
    "sort": "copied in the order of accounts, in one process",
}


def _bytes(size: Mapping[str, Any]) -> int:
    return sum(table["bytes"] for table in size["after"].values())


def _per_row(size: Mapping[str, Any], when: str, table: str) -> str:
    of = size[when][table]
    return f"{of['bytes'] / of['rows']:.0f}" if of["rows"] else "-"


def _rate(size: Mapping[str, Any], step: str) -> str:
    taken = size["steps"].get(step, {"failed": "not done"})
    return "-" if taken["failed"] else f"{taken['added'] / taken['seconds']:,.0f}"


def _heading(first: str, sizes: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = [first, "engine"]
    for size in sizes:
        columns += [f"s, {_titled(size)}", "MB", "times by hand"]
    return [*columns, "growth"] if len(sizes) > 1 else columns


def _compared(kind: str, sizes: Sequence[Mapping[str, Any]]) -> Iterable[list[str]]:
    names = dict.fromkeys(name for size in sizes for name in size[kind])
    for name in names:
        row = name.rsplit(", ", 1)
        seconds = []
        for size in sizes:
            found = size[kind].get(name)
            if found is None:  # not measured
                row += ["", "", ""]
                seconds.append(None)
                continue
            ours, hand = found["ours"], found.get("by hand")
            good = not ours["failed"]
            seconds.append(ours["seconds"] if good else None)
            row += [_number(ours["seconds"]), f"{ours['peak']:,}"] if good else [_reason(ours), ""]
            compared = good and hand and not hand["failed"] and hand["cpu"]
            row.append(f"{ours['cpu'] / hand['cpu']:.1f}" if compared else "")
        if len(sizes) > 1:
            grown = seconds[0] and seconds[-1]
            row.append(f"{seconds[-1] / seconds[0]:.1f}" if grown else "")
        yield row


def _reason(taken: Mapping[str, Any]) -> str:
    """Say in a word why a measure failed."""
    said = {"No space left": "disk", "memory": "memory", "Out of Memory": "memory"}
    word = next((word for text, word in said.items() if text in taken["failed"]), "-")
    return "time" if taken["failed"] == "time" else word


def _number(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] + ["---:"] * (len(heading) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
