"""SQL that each dialect writes in its own way."""

from typing import Any

from sqlalchemy import Boolean, ColumnElement, Float, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def holds_text(column: ColumnElement[str] | Any, text: str) -> ColumnElement[bool]:
    """Return the condition that a column holds a text, whatever the case of its ASCII letters."""
    escaped = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return _Holds(column, literal(f"%{escaped}%"))


def json_item(column: ColumnElement[Any] | Any, outer: str, inner: str, index: Any) -> ColumnElement[float]:
    """Return a number of the array `inner` of the object `outer` of a JSON column, by its index."""
    return _JsonItem(column, literal(outer), literal(inner), index)


class _Holds(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True


class _JsonItem(FunctionElement[float]):
    type = Float()
    inherit_cache = True


def _parts(element: FunctionElement[Any], compiler: SQLCompiler, **options: Any) -> list[str]:
    return [compiler.process(clause, **options) for clause in element.clauses]


@compiles(_Holds, "sqlite")
def _like(element: _Holds, compiler: SQLCompiler, **options: Any) -> str:
    column, pattern = _parts(element, compiler, **options)
    return f"({column} LIKE {pattern} ESCAPE '/')"


@compiles(_Holds, "postgresql")
def _ilike(element: _Holds, compiler: SQLCompiler, **options: Any) -> str:
    column, pattern = _parts(element, compiler, **options)
    return f"({column} ILIKE {pattern} ESCAPE '/')"


@compiles(_JsonItem, "sqlite")
def _extract_item(element: _JsonItem, compiler: SQLCompiler, **options: Any) -> str:
    column, outer, inner, index = _parts(element, compiler, **options)
    return f"json_extract({column}, '$.' || {outer} || '.' || {inner} || '[' || {index} || ']')"


@compiles(_JsonItem, "postgresql")
def _get_item(element: _JsonItem, compiler: SQLCompiler, **options: Any) -> str:
    column, outer, inner, index = _parts(element, compiler, **options)
    return f"CAST({column} -> {outer} -> {inner} ->> CAST({index} AS INTEGER) AS DOUBLE PRECISION)"
