"""SQL that each dialect writes in its own way."""

from typing import Any

from sqlalchemy import ColumnElement, Float, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def json_item(column: ColumnElement[Any] | Any, outer: str, inner: str, index: Any) -> ColumnElement[float]:
    """Return a number of the array `inner` of the object `outer` of a JSON column, by its index."""
    return _JsonItem(column, literal(outer), literal(inner), index)


class _JsonItem(FunctionElement[float]):
    type = Float()
    inherit_cache = True


def _parts(element: FunctionElement[Any], compiler: SQLCompiler, **options: Any) -> list[str]:
    return [compiler.process(clause, **options) for clause in element.clauses]


@compiles(_JsonItem, "sqlite")
def _extract_item(element: _JsonItem, compiler: SQLCompiler, **options: Any) -> str:
    column, outer, inner, index = _parts(element, compiler, **options)
    return f"json_extract({column}, '$.' || {outer} || '.' || {inner} || '[' || {index} || ']')"


@compiles(_JsonItem, "postgresql")
def _get_item(element: _JsonItem, compiler: SQLCompiler, **options: Any) -> str:
    column, outer, inner, index = _parts(element, compiler, **options)
    return f"CAST({column} -> {outer} -> {inner} ->> CAST({index} AS INTEGER) AS DOUBLE PRECISION)"
