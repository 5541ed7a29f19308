"""The settings of a config by dotted path, and what help, templates and errors say of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from service.config import Config


@dataclass(frozen=True)
class Setting:
    """A field of a config or of one of its tables.

    `choice` is (path of the union, its kind) if the field belongs to one kind.
    """

    path: str
    info: FieldInfo
    table: type[Config]
    choice: tuple[str, str] | None = None

    @property
    def types(self) -> list[Any]:
        """The types of its values: the members of a union."""
        return _members(self.info.annotation)

    @property
    def tables(self) -> list[type[Config]]:
        """The configs that it takes, alone or in a list; none for a plain field."""
        kinds = [kind for member in self.types for kind in (member, *get_args(member))]
        return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Config)]

    @property
    def is_list(self) -> bool:
        """Whether it takes a list of tables."""
        return bool(self.tables) and get_origin(self.info.annotation) is tuple

    @property
    def literals(self) -> list[str]:
        """The words that it takes."""
        return [str(each) for kind in self.types if get_origin(kind) is Literal for each in get_args(kind)]

    @property
    def takes_none(self) -> bool:
        """Whether `none` unsets it; if it is one of its words, it is that word."""
        return NoneType in self.types and "none" not in self.literals

    @property
    def operational(self) -> bool:
        """Whether it has no effect on results."""
        return self._is_marked("operational")

    @property
    def free(self) -> bool:
        """Whether it collects settings of another program."""
        return self._is_marked("free")

    @property
    def takes_keys(self) -> bool:
        """Whether its value is a table with keys of the user's choice."""
        return self.free or any(get_origin(member) is dict for member in self.types)

    def _is_marked(self, mark: str) -> bool:
        return isinstance(extra := self.info.json_schema_extra, dict) and bool(extra.get(mark))

    @property
    def about(self) -> str:
        """What it means, in one line."""
        return " ".join((self.info.description or "").split())

    @property
    def default(self) -> Any:
        """The default; None if it is required or not set."""
        return None if self.info.is_required() else self.info.get_default(call_default_factory=True)

    @property
    def limits(self) -> str:
        """The values that it takes, in words; empty if any value of its type will do."""
        if self.literals and not {str, float} & {*self.types}:
            return ", ".join(self.literals)
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        bounds = {
            name: f"{value:,}" if isinstance(value, int) else f"{value:g}"
            for name in words
            for rule in self.info.metadata
            if (value := getattr(rule, name, None)) is not None
        }
        if "ge" in bounds and "le" in bounds:
            return f"{bounds['ge']} to {bounds['le']}"
        return " and ".join(f"{words[name]} {bound}" for name, bound in bounds.items())

    @property
    def type_words(self) -> str:
        """The type of its values, in words."""
        for member in self.types:
            if get_origin(member) is tuple and Ellipsis not in get_args(member):
                return f"a list of {len(get_args(member))} values"
        words: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", tuple: "a list"}
        words |= {dict: "a table", str: "a string", Literal: "one of"}
        kinds = {get_origin(member) or member for member in self.types}
        return next((words[kind] for kind in words if kind in kinds), "a string")


def settings_of(kind: type[Config]) -> list[Setting]:
    """Return the plain settings of a config by dotted path: its own first, then those of its tables."""
    return [each for each in fields_of(kind) if not each.tables]


@cache
def fields_of(kind: type[Config]) -> tuple[Setting, ...]:
    """Return the plain settings and the tables of a config, each table before what is in it."""
    return tuple(_fields(kind, ""))


def _fields(kind: type[Config], prefix: str, choice: tuple[str, str] | None = None) -> Iterator[Setting]:
    """Yield plain fields before tables, and those of a class before those of its bases."""
    names = dict.fromkeys(name for base in kind.__mro__ for name in vars(base).get("__annotations__", ()))
    infos = {name: kind.model_fields[name] for name in names if name in kind.model_fields}
    fields = [Setting(prefix + name, info, kind, choice) for name, info in infos.items()]
    for each in sorted(fields, key=lambda each: bool(each.tables)):
        if each.path != f"{prefix}kind" or not each.info.is_required():  # the first kind is the default
            yield each
        for table in each.tables:
            of = (each.path, kind_of(table)) if len(each.tables) > 1 else choice
            yield from _fields(table, f"{each.path}.", of)


@cache
def find_setting(kind: type[Config], path: str) -> Setting | None:
    """Return the field of a path, or the one whose value has it as a key; None if there is none.

    List indices in the path are ignored.
    """
    names = [part for part in path.split(".") if not part.isdigit()]
    fields = {each.path: each for each in reversed(fields_of(kind))}
    for length in range(len(names), 0, -1):
        each = fields.get(".".join(names[:length]))
        if each is not None and (length == len(names) or each.takes_keys):
            return each
    if kind.rest and names and names[0] not in kind.model_fields:
        return find_setting(kind, f"{kind.rest}.{path}")
    return None


def kind_of(table: type[Config]) -> str:
    """Return the value of the field `kind` by which a union is chosen; empty for a table without it."""
    return str(get_args(table.model_fields["kind"].annotation)[0]) if "kind" in table.model_fields else ""


def _members(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [member for each in get_args(annotation) for member in _members(each)]
    return [annotation]
