"""Reads columns of Arrow tables (Parquet, data sets), and the fields of structs in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opencse.errors import UserError
from opencse.text.files.lines import File

if TYPE_CHECKING:
    from pyarrow import Array, Field, RecordBatch, Schema, Table


def column_names(schema: Schema, *, complete: bool = False) -> tuple[str, ...]:
    """The names of the columns of a table; the fields of structs follow a dot, as nested keys of JSON do.

    Example:
        >>> import pyarrow
        >>> rows = [{"id": 1, "meta": {"title": "A", "by": {"name": "B"}}}]
        >>> column_names(pyarrow.Table.from_pylist(rows).schema)
        ('id', 'meta.title', 'meta.by.name')

    Args:
        schema: of the table.
        complete: also name the structs themselves.
    """
    leaves = tuple(name for field in schema for name in _leaves(field))
    return (*schema.names, *(name for name in leaves if name not in schema.names)) if complete else leaves


def column_values(table: RecordBatch | Table, name: str, where: File | str, before: int) -> list[object]:
    """The values of a column, or of a field of a struct, named with dots; None where the struct is null.

    Example:
        >>> import pyarrow
        >>> column_values(pyarrow.Table.from_pylist([{"meta": {"title": "A"}}, {"meta": None}]), "meta.title", "a", 0)
        ['A', None]

    Args:
        table: some rows.
        name: as `column_names` gives it.
        where: names the file, for messages.
        before: number of rows before these.

    Raises:
        UserError: for bytes that are not UTF-8 in a column of text.
    """
    column = _column(table, name)
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        pass
    for number, value in enumerate(column, start=before + 1):
        try:
            value.as_py()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{where}, row {number}: column {name!r} is not UTF-8 text (byte 0x{error.object[error.start]:02x}); "
                "write it again in UTF-8"
            ) from None
    raise RuntimeError(f"column {name!r} can be read neither as a whole nor value by value")


def first_part(name: str, schema: Schema) -> str:
    """The column of the table that ``name`` is, or is a field of."""
    path = _path(schema, name)
    return path[0] if path else name


def _column(table: RecordBatch | Table, name: str) -> Array:
    head, *inner = _path(table.schema, name) or [name]
    if not inner:
        return table.column(head)
    import pyarrow.compute

    return pyarrow.compute.struct_field(table.column(head), inner)


def _path(fields: Iterable[Field], name: str) -> list[str]:
    """The names of the column and of the structs' fields that lead to ``name``; empty where there are none."""
    every = list(fields)
    if any(field.name == name for field in every):
        return [name]
    for field in every:
        if name.startswith(f"{field.name}.") and (rest := _path(_fields(field), name[len(field.name) + 1 :])):
            return [field.name, *rest]
    return []


def _leaves(field: Field) -> Iterator[str]:
    inner = _fields(field)
    yield from (f"{field.name}.{name}" for one in inner for name in _leaves(one)) if inner else (field.name,)


def _fields(field: Field) -> list[Field]:
    """The fields of a struct; none for another type."""
    import pyarrow

    return list(field.type) if pyarrow.types.is_struct(field.type) else []
