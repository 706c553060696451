"""The columns of the public lake, and how our columns are made of them.

The lake has the names of our columns, with these differences: `body_boc` and `init_state_boc` are
bytes, and `body` and `init_state_body` are base64 here; `opcode` is signed; small integers have 32
bits; and for an external message `created_at` is the time of the transaction, where the message
itself has none (datalake/README.md of ton-studio/ton-etl). Columns that it does not have are null.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tonframes.scanning.asked import SECONDS
from tonframes.wire import codec, schema
from tonframes.wire.kinds import INT, OPCODE
from tonframes.wire.record import Record, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.dataset as pads

#: The columns of the lake's tables, in its order (datalake/athena_ddl.sql of ton-studio/ton-etl).
COLUMNS = {
    "transactions": """
        account hash lt block_workchain block_shard block_seqno mc_block_seqno trace_id
        prev_trans_hash prev_trans_lt now orig_status end_status total_fees
        account_state_hash_before account_state_hash_after account_state_code_hash_before
        account_state_code_hash_after account_state_balance_before account_state_balance_after
        descr aborted destroyed credit_first is_tock installed storage_fees_collected
        storage_fees_due storage_status_change credit_due_fees_collected credit compute_skipped
        skipped_reason compute_success compute_msg_state_used compute_account_activated
        compute_gas_fees compute_gas_used compute_gas_limit compute_gas_credit compute_mode
        compute_exit_code compute_exit_arg compute_vm_steps compute_vm_init_state_hash
        compute_vm_final_state_hash action_success action_valid action_no_funds
        action_status_change action_total_fwd_fees action_total_action_fees action_result_code
        action_result_arg action_tot_actions action_spec_actions action_skipped_actions
        action_msgs_created action_action_list_hash action_tot_msg_size_cells
        action_tot_msg_size_bits bounce bounce_msg_size_cells bounce_msg_size_bits
        bounce_req_fwd_fees bounce_msg_fees bounce_fwd_fees split_info_cur_shard_pfx_len
        split_info_acc_split_depth split_info_this_addr split_info_sibling_addr
    """,
    "messages": """
        tx_hash tx_lt tx_now msg_hash direction trace_id source destination value fwd_fee ihr_fee
        created_lt created_at opcode ihr_disabled bounce bounced import_fee body_hash body_boc
        comment init_state_hash init_state_boc
    """,
    "blocks": """
        workchain shard seqno root_hash file_hash mc_block_workchain mc_block_shard mc_block_seqno
        global_id version after_merge before_split after_split want_merge want_split key_block
        vert_seqno_incr flags gen_utime start_lt end_lt validator_list_hash_short
        gen_catchain_seqno min_ref_mc_seqno prev_key_block_seqno vert_seqno master_ref_seqno
        rand_seed created_by tx_count
    """,
}

#: Our columns of base64 text, and the lake's columns of the same bytes.
BYTES = {"body": "body_boc", "init_state_body": "init_state_boc"}
_LONG = ("compute_vm_steps",)  # the one integer of JSON that has 64 bits in the lake
UNSIGNED = 2**32

#: The names of types in Spark; DuckDB understands them too.
SQL = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.string(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BINARY",
}


@dataclass(frozen=True)
class LakeForm:
    """The columns of a table in the lake, and the columns of our frame of it."""

    name: str

    @cached_property
    def table(self) -> Table:
        """The table that the frame has: ours, with nulls in columns that the lake does not have."""
        ours = schema.TABLES[self.name]
        columns = tuple(
            replace(column, always=column.always and column.name in COLUMNS[self.name].split())
            for column in ours.columns
        )
        record = Record(ours.record.name, ours.record.meaning, ())
        return Table(ours.name, record, ours.keys, ours.order, before=columns)

    @cached_property
    def stored(self) -> pa.Schema:
        """The columns in the lake's files."""
        columns = {column.name: column for column in self.table.columns}
        stored = []
        for name in COLUMNS[self.name].split():
            column = columns.get(name)
            if column is None:
                stored.append(pa.field(name, pa.binary()))
            elif column.kind is OPCODE or (column.kind is INT and name not in _LONG):
                stored.append(pa.field(name, pa.int32()))
            else:
                stored.append(pa.field(name, column.kind.arrow))
        return pa.schema(stored)

    def read(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return columns of ours from rows of the lake, which have the columns of `needed`."""
        declared = self.table.schema
        columns = [self._as_arrow(rows, declared.field(name)) for name in names]
        fields = [declared.field(name) for name in names]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, declared.metadata))

    def needed(self, names: Sequence[str]) -> list[str]:
        """List the columns of the lake from which `read` makes columns of ours."""
        sources = {self._source(name) for name in names}
        if "created_at" in sources:
            sources.add("source")
        return [name for name in self.stored.names if name in sources]

    def _source(self, name: str) -> str | None:
        """Return the column of the lake that a column of ours is made of; None if there is none."""
        if name == "block_time":
            return SECONDS[self.name]
        source = BYTES.get(name, name)
        return source if source in self.stored.names else None

    def _as_arrow(self, rows: pa.Table, ours: pa.Field) -> pa.ChunkedArray:
        source = self._source(ours.name)
        if source is None:
            return pa.chunked_array([pa.nulls(len(rows), ours.type)])
        column = rows[source]
        if ours.name in BYTES:
            return mapped(column, lambda each: base64.b64encode(each).decode(), pa.string())
        if ours.name == "block_time":
            return codec.moments(column.cast(pa.int64()))
        if ours.name == "opcode":
            return pc.bit_wise_and(column.cast(pa.int64()), UNSIGNED - 1)
        if ours.name == "created_at":
            return pc.if_else(pc.is_null(rows["source"]), None, column).cast(ours.type)
        return column.cast(ours.type)

    def as_sql(self, quote: str, moment: str, time: str) -> list[str]:
        """Return the columns of ours as SQL."""

        def expression(ours: pa.Field) -> str:
            kind = SQL.get(ours.type, moment)
            source = self._source(ours.name)
            if source is None:
                return f"CAST(NULL AS {kind})"
            column = f"{quote}{source}{quote}"
            if ours.name in BYTES:
                return f"replace(base64({column}), chr(13) || chr(10), '')"  # Spark breaks lines
            if ours.name == "block_time":
                return f"{time}({column})"
            if ours.name == "opcode":
                return f"CAST({column} AS BIGINT) & {UNSIGNED - 1}"
            if ours.name == "created_at":
                return f"CASE WHEN {quote}source{quote} IS NOT NULL THEN {column} END"
            return f"CAST({column} AS {kind})"

        return [f"{expression(ours)} AS {quote}{ours.name}{quote}" for ours in self.table.schema]


class LakeRows:
    """Rows of the lake with our columns: pyarrow has no lazy frame with computed columns.

    The methods are those of `pyarrow.dataset.Dataset`. Every helper takes such an object.
    """

    def __init__(self, dataset: pads.Dataset, form: LakeForm) -> None:
        self._dataset = dataset
        self._form = form

    def __repr__(self) -> str:
        return f"<LakeRows: {self._form.name}, {len(self.schema.names)} columns>"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._form.table.schema

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read columns; None is all."""
        names = self.schema.names if columns is None else list(columns)
        return self._form.read(self._dataset.to_table(columns=self._form.needed(names)), names)

    def to_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read columns in batches; None is all."""
        names = self.schema.names if columns is None else list(columns)
        for batch in self._dataset.to_batches(columns=self._form.needed(names)):
            yield from self._form.read(pa.Table.from_batches([batch]), names).to_batches()

    def count_rows(self) -> int:
        """Count the rows."""
        rows: int = self._dataset.count_rows()
        return rows


def mapped(column: pa.ChunkedArray, convert: Any, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert each value that is not null."""
    values = [None if each is None else convert(each) for each in column.to_pylist()]
    return pa.chunked_array([pa.array(values, kind)])
