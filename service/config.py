"""Settings of a verb: one frozen model, read from TOML files, profiles and `key=value` words.

    class Sampling(Config):
        temperature: float = Field(0.6, ge=0, le=10, description="Temperature.")

    reading = Reading(RephraseConfig)
    reading.add_file(Path("my.toml"))
    reading.add_words(["solver.max_tokens=2048"])
    config = reading.build()

Later values win. A text where a table is expected gives the table's leading field: `solver=MODEL` is
`solver.model=MODEL`, and `proposer=rules` is `proposer.kind=rules`. In a list of tables, `[solver]` and
`solver.max_tokens` speak of every table and `solver.0.max_tokens` of the first. `none` unsets what may be
unset. A field marked `FREE` collects settings of another program: `verl.trainer.save_freq=5` adds the text
`trainer.save_freq=5` to the field `verl`. A config with a `rest` reads a key that it lacks as one of that
table: `anchor=own` is `recipe.anchor=own`.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial, reduce
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from service.asks.redaction import redact
from service.errors import InputError

OPERATIONAL: dict[str, Any] = {"operational": True}
"""`json_schema_extra` of a field that shapes no result: another invocation of a run may change it."""

operational = partial(Field, json_schema_extra=OPERATIONAL)
"""A field that is marked so."""

FREE: dict[str, Any] = {"free": True}
"""`json_schema_extra` of a list of texts, `KEY=VALUE` of another program; files may give them as a table."""

PROFILES = "endpoint"
"""The table of a file whose tables are profiles, and the field that names one."""

_KEYS = ("key", "api_key", "token", "password")
_UNSHOWN = (*_KEYS, "api_key_env")
"""Settings whose values no message repeats."""
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")

Place = tuple[str | int, ...]
PlaceOf = Callable[[Place], str]
"""Returns where a value was given: a file and a line, a word, a flag."""
Given = list[tuple[Any, PlaceOf]]
"""Values in the order in which they were given."""


class Config(BaseModel):
    """Base of all settings. A long description of a field is the text below it.

    `leading` is the field that a mere text gives, `rest` the table that takes keys that are no field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, use_attribute_docstrings=True)
    leading: ClassVar[str] = ""
    rest: ClassVar[str] = ""

    def stored(self) -> dict[str, Any]:
        """Return the form that is kept with a run; `read_stored` reads it."""
        return {"schema": 1, **self.model_dump(mode="json")}


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Setting:
    """A plain field of a config or of one of its tables.

    `choice` is (path of the union, its kind) if the field belongs to one kind.
    """

    path: str
    info: FieldInfo
    table: type[Config]
    choice: tuple[str, str] | None = None

    @property
    def about(self) -> str:
        """What it means, in one line."""
        return " ".join((self.info.description or "").split())

    @property
    def operational(self) -> bool:
        """Whether the setting has no effect on results."""
        return _is_marked(self.info, "operational")

    @property
    def default(self) -> Any:
        """The default; None if it is required or not set."""
        return None if self.info.is_required() else self.info.get_default(call_default_factory=True)

    def to_json(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "default": self.default,
            "takes": self.limits,
            "required": self.info.is_required(),
            "operational": self.operational,
            "of": self.choice and "=".join(self.choice),
        }

    @property
    def limits(self) -> str:
        """The values that it takes, in words; empty if any value of its type will do."""
        leaves = _leaves(self.info.annotation)
        choices = [str(each) for each in _literals(self.info.annotation)]
        if choices and not {str, float} & {*leaves}:
            return ", ".join(choices)
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


@cache
def settings_of(kind: type[Config]) -> tuple[Setting, ...]:
    """Return all settings of a config by dotted path: its own first, then those of its tables."""
    return tuple(_settings(kind, ""))


def _settings(kind: type[Config], prefix: str, choice: tuple[str, str] | None = None) -> Iterator[Setting]:
    """Yield plain fields before tables, and those of a class before those of its bases."""
    names = dict.fromkeys(name for base in kind.__mro__ for name in vars(base).get("__annotations__", ()))
    fields = [(name, kind.model_fields[name]) for name in names if name in kind.model_fields]
    for name, info in sorted(fields, key=lambda field: bool(_tables(field[1]))):
        tables = _tables(info)
        if not tables and (name != "kind" or not info.is_required()):  # the first kind is the default
            yield Setting(prefix + name, info, kind, choice)
        for table in tables:
            of = (prefix + name, _kind_of(table)) if len(tables) > 1 else choice
            yield from _settings(table, f"{prefix}{name}.", of)


def find_setting(kind: type[Config], path: str) -> Setting | None:
    """Return the setting of a path, None where there is none; places in lists are left out of it."""
    plain = ".".join(part for part in path.split(".") if not part.isdigit())
    for each in settings_of(kind):
        if each.path == plain or (_is_marked(each.info, "free") and plain.startswith(f"{each.path}.")):
            return each
    if kind.rest and plain.partition(".")[0] not in kind.model_fields:
        return find_setting(kind, f"{kind.rest}.{plain}")
    return None


class Reading(Generic[C]):
    """Collects the tables of a config in order, each with the place that gave it, and builds the config."""

    def __init__(self, kind: type[C]) -> None:
        self._kind = kind
        self._given: Given = []
        self._profiles: dict[str, dict[str, tuple[Any, PlaceOf]]] = {}
        self._places: dict[Place, str] = {}  # what gave a value, once it is known which one counts
        self._problems: list[str] = []

    def add_file(self, path: Path, *, profiles_only: bool = False) -> None:
        """Read a TOML file; with `profiles_only` it may hold nothing but `[endpoint.NAME]`."""
        text, tables = read_toml(path)
        lines = _lines(text)

        def place_of(at: Place) -> str:
            plain = tuple(part for part in at if not isinstance(part, int))  # [solver] is of all solvers
            nearest = (each[:length] for length in range(len(at), 0, -1) for each in (at, plain))
            return f"{path}:{next((lines[each] for each in nearest if each in lines), 1)}: "

        profiles = tables.pop(PROFILES) if isinstance(tables.get(PROFILES), dict) else {}
        for name, profile in profiles.items():
            if isinstance(profile, dict):
                places = {key: _constant(place_of((PROFILES, name, key))) for key in profile}
                self._profiles[name] = {key: (value, places[key]) for key, value in profile.items()}
            else:
                self._problems.append(
                    f"{path}: {PROFILES}.{name} is not a table. Write its settings below [{PROFILES}.{name}]."
                )
        if profiles_only and tables:
            self._problems.append(
                f"{path}: {', '.join(tables)}: this file may contain profiles only, as [{PROFILES}.NAME]. "
                "Put other settings into another file and pass it with -c FILE."
            )
        else:
            self.add(tables, place_of)

    def add(self, values: Mapping[Any, Any], place_of: PlaceOf) -> None:
        """Take values by field; those that are no field of the config are of its table `rest`."""
        other = {name: values[name] for name in values if name not in self._kind.model_fields}
        if self._kind.rest and other:
            self._given.append(({self._kind.rest: other}, lambda at: place_of(at[1:])))
            values = {name: values[name] for name in values if name not in other}
        self._given.append((values, place_of))

    def add_words(self, words: Sequence[str]) -> None:
        """Take `key=value` words."""
        for word in words:
            key, equals, text = word.partition("=")
            if not equals:
                raise InputError(f"{word}: write settings as KEY=VALUE.")
            self.set(key, text, "" if key.rpartition(".")[2] in _UNSHOWN else f"{word}: ")

    def set(self, key: str, value: Any, place: str) -> None:
        """Set one field by its dotted name; a text is read as the field's type. Errors name the `place`."""
        try:
            to_json({key: value})
        except ValueError as error:  # half of a surrogate pair stands for a byte that is not UTF-8
            raise InputError(redact(f"{place or f'{key}: '}write settings in UTF-8.")) from error
        setting = find_setting(self._kind, key)
        if setting is not None and _is_marked(setting.info, "free") and key != setting.path:
            inner = key.removeprefix(f"{setting.path}.")
            removes = inner.startswith("~") and not value  # verl.~KEY= removes a setting of verl
            key, value = setting.path, [inner if removes else f"{inner}={value}"]
        if isinstance(value, str):  # without a setting: in a free mapping, or names of a list of tables
            value = read_text(Any if setting is None else setting.info.annotation, value)
        for part in reversed(key.split(".")):
            value = {int(part) if part.isdigit() else part: value}
        self.add(value, _constant(place))

    def build(self) -> C:
        """Return the config."""
        values = self._resolve(self._kind, (), self._given)
        try:
            config = self._kind.model_validate_json(to_json(values, fallback=str), strict=True)
        except ValidationError as error:
            for each in sorted(error.errors(), key=lambda each: each["type"] == "missing"):
                self._report(each)
        else:
            if not self._problems:
                return config
        problems = list(dict.fromkeys(map(redact, self._problems)))
        count = [f"{len(problems)} settings are invalid:"] if len(problems) > 1 else []
        raise InputError("\n  ".join([*count, *problems]))

    def _resolve(self, table: type[Config], at: Place, given: Given) -> dict[str, Any]:
        """Return the values of a table for pydantic from what was given for it; later values win."""
        required = [name for name, info in table.model_fields.items() if info.is_required() and _tables(info)]
        fields: dict[Any, Given] = {name: [({}, _constant(""))] for name in required}
        for values, place_of in given:
            for name, value in values.items():
                fields.setdefault(name, []).append((value, place_of))
        self._add_profile(table, at, fields)
        resolved: dict[str, Any] = {}
        for name, several in fields.items():
            here, info = (*at, name), table.model_fields.get(name)
            self._places[here] = several[-1][1](here)
            tables = _tables(info)
            if info is None:
                self._report_unknown(here, several)
            elif _is_list(info):
                resolved[name] = self._resolve_items(tables[0], here, several)
            elif tables:
                resolved[name] = self._resolve_choice(info, here, several)
            else:
                resolved[name] = reduce(partial(_merge, info), (value for value, _ in several), None)
        return resolved

    def _add_profile(self, table: type[Config], at: Place, fields: dict[Any, Given]) -> None:
        """Put the values of the profile that a table names below its own."""
        if PROFILES in fields and PROFILES in table.model_fields:
            name, place_of = fields[PROFILES][-1]
            if isinstance(name, str) and name != "none":
                fields[PROFILES] = [(None, place_of)]
                for key, placed in self.profile(name, place_of((*at, PROFILES))).items():
                    fields.setdefault(key, []).insert(0, placed)

    def profile(self, name: str, place: str) -> dict[str, tuple[Any, PlaceOf]]:
        """Return the values of a profile; `place` names it."""
        if name not in self._profiles:
            available = ", ".join(self._profiles) or "none"
            self._problems.append(f"{place}[{PROFILES}.{name}] does not exist. Available: {available}.")
        return self._profiles.get(name, {})

    def _resolve_choice(self, info: FieldInfo, at: Place, given: Given) -> Any:
        """Return the values of a table; where it has several kinds, what was given for the last one."""
        kept: Given = []
        tables = _tables(info)
        leading = tables[0].leading if len(tables) == 1 else "kind"
        kinds, kind = [_kind_of(table) for table in tables], _kind_of(tables[0])
        for value, place_of in given:
            if value is None or (value == "none" and _takes_none(info)):
                kept = []
                continue
            if not isinstance(value, dict) and not (leading and isinstance(value, str)):
                self._places[at] = place_of(at)
                return value  # pydantic refuses it
            values = value if isinstance(value, dict) else {leading: value}
            if values.get("kind", kind) != kind:
                kind, kept = values["kind"], []
            kept.append((values, place_of))
        if kind not in kinds:
            return {"kind": kind}
        resolved = self._resolve(tables[kinds.index(kind)], at, kept)
        if _takes_none(info) and leading not in resolved:
            return None  # settings of what is not there
        return {"kind": kind, **resolved} if kind else resolved

    def _resolve_items(self, table: type[Config], at: Place, given: Given) -> list[dict[str, Any]]:
        """Return a list of tables. Each has what was given for it, by its number, and for all."""
        of_all: Given = []
        items: list[Given] = []
        for value, place_of in given:
            if not isinstance(value, dict):
                several = [] if value in ("none", None) else [value]
                items, value = [], dict(enumerate(value if isinstance(value, list) else several))
            for key, inner in value.items():
                if isinstance(key, int):
                    items += [list(of_all) for _ in range(len(items), key + 1)]
                    values = inner if isinstance(inner, dict) else {table.leading: inner}
                    items[key].append((values, place_of))
                    continue
                if key not in table.model_fields:
                    self._report_unknown((*at, key), [(inner, place_of)])
                    continue
                if key == table.leading and not items:
                    items.append(list(of_all))
                for each in (of_all, *items):
                    each.append(({key: inner}, place_of))
        return [self._resolve(table, (*at, number), item) for number, item in enumerate(items)]

    def _report_unknown(self, at: Place, given: Given) -> None:
        for value, place_of in given:
            named = tuple(part for part in at if part != "")
            self._report({"type": "extra_forbidden", "loc": named, "input": value}, place_of(at))

    def _report(self, error: Any, place: str | None = None) -> None:
        """Note one of pydantic's errors as place, name, what is wrong and the way out."""
        choices = {each.choice for each in settings_of(self._kind)}
        loc = error["loc"]  # with the kinds of unions
        if error["type"] == "missing" and isinstance(loc[-1], int):  # of a list that is too short
            error, loc = {**error, "type": "too_short"}, loc[:-1]
        at = tuple(part for n, part in enumerate(loc) if (".".join(map(str, loc[:n])), part) not in choices)
        nearest = [at[:length] for length in range(len(at), 0, -1)]
        if place is None:
            place = next((self._places[each] for each in nearest if each in self._places), "")
        names = [".".join(map(str, each)) for each in nearest] or [""]
        name = next((each for each in names if find_setting(self._kind, each)), names[0])
        if error["type"] == "missing" and f"Did you mean {name}?" in "".join(self._problems):
            return
        link, advice = _problem(self._kind, name, error)
        key = place.removesuffix(": ").partition("=")[0].removeprefix("--")
        if error["type"] == "extra_forbidden" and self._kind.rest:
            name = name.removeprefix(f"{self._kind.rest}.")
        if key and f".{name}".endswith(f".{key}"):  # a word or a flag that already names the setting
            name, link = "", (link if place.startswith("--") else ": ")
            place = place.removesuffix(": ")
        self._problems.append(place + (name + link if at else "") + advice)


def _constant(place: str) -> PlaceOf:
    return lambda _: place


def _merge(info: FieldInfo, before: Any, value: Any) -> Any:
    """Return the value of a plain field in place of the one before."""
    if value == "none" and _takes_none(info):
        return None
    if isinstance(value, str) and tuple[str, ...] in _leaves(info.annotation):
        value = [value]
    if _is_marked(info, "free"):
        return [*(before or ()), *(value if isinstance(value, list) else [value])]
    return _merge_tables(before, value)


def _merge_tables(before: Any, value: Any) -> Any:
    if not (isinstance(before, dict) and isinstance(value, dict) and value):
        return value
    return before | {key: _merge_tables(before.get(key), inner) for key, inner in value.items()}


def read_stored(
    kind: type[C], stored: Mapping[str, Any], words: Sequence[str] = (), *, profiles: Path | None = None
) -> C:
    """Return a stored config, with what words change about it; `profiles` is a file of `[endpoint.NAME]`."""
    refused = [
        word
        for word in words
        if (setting := find_setting(kind, word.partition("=")[0])) is not None and not setting.operational
    ]
    if refused:
        raise InputError(
            f"{', '.join(refused)}: this setting affects the results, so it cannot change in an existing "
            "run. Remove it, or start a run with another name."
        )
    reading = Reading(kind)
    if profiles is not None:
        reading.add_file(profiles, profiles_only=True)
    reading.add({key: value for key, value in stored.items() if key != "schema"}, _constant(""))
    for word in words:
        key, _, text = word.partition("=")
        if key.rpartition(".")[2] == PROFILES:  # over what is stored
            for field, (value, _) in reading.profile(text, f"{word}: ").items():
                reading.set(key.removesuffix(PROFILES) + field, value, f"{word}: ")
        else:
            reading.add_words([word])
    return reading.build()


def read_text(annotation: Any, text: str) -> Any:
    """Return the value that a text gives in a field of this type; a text that does not fit stays a text."""
    leaves = _leaves(annotation)
    if str in leaves or Path in leaves:
        return text
    numbers: list[Callable[[str], Any]] = [kind for kind in (int, float) if kind in leaves]
    for parse in (*numbers, json.loads, _read_toml, _split_list):
        with suppress(ValueError, RecursionError):
            value = parse(text.lower() if bool in leaves else text)
            TypeAdapter(annotation).validate_json(to_json(value), strict=True)
            return value
    return text


def _read_toml(text: str) -> Any:
    return tomllib.loads(f"value = {text}")["value"]


def _split_list(text: str) -> list[str]:
    """Return the items of `[a, b]`, which need no quotes."""
    if not text.startswith("["):
        raise ValueError(text)
    return [part.strip().strip("\"'") for part in text.strip("[]").split(",") if part.strip()]


def metavar(setting: Setting) -> str:
    """Return what stands for a setting's value in the help of a flag: N, FILE, or its choices."""
    leaves = _leaves(setting.info.annotation)
    for kind, word in ((int, "N"), (float, "X"), (Path, "FILE")):
        if kind in leaves:
            return word
    return "|".join(map(str, _literals(setting.info.annotation))) or "TEXT"


def template(kind: type[Config], about: str) -> str:
    """Return a TOML file with every setting in a comment: what it means, its range and its default.

    Read back as it is, it changes nothing.
    """
    lines = [f"# {line}".rstrip() for line in about.splitlines()]
    table = kind
    for each in settings_of(kind):
        prefix, _, name = each.path.rpartition(".")
        if each.table is not table:
            table, header = each.table, f"[{prefix}]"
            lines += ["", f"# {summary(table)}"]
            if _is_list(kind.model_fields.get(prefix)):
                lines.append(f"# [{header}] once per item; {header} applies to all items.")
            lines += [f"# {header}", f'# kind = "{_kind_of(table)}"'] if header in lines else [header]
        limits = f" ({each.limits})" if each.limits else ""
        required = " Required." if each.info.is_required() else ""
        default = "" if each.default is None else json.dumps(each.default, default=str)
        lines += ["", f"# {each.about}{limits}{required}", f"# {name} = {default}".rstrip()]
    return "\n".join(lines) + "\n"


def pick(config: Config, part: type[Config]) -> dict[str, Any]:
    """Return the values of a config for the fields of one of the classes that it builds on."""
    return {name: getattr(config, name) for name in part.model_fields}


def summary(kind: type[Config]) -> str:
    """Return the first sentence of a config's docstring."""
    return (kind.__doc__ or "").strip().splitlines()[0]


def _problem(kind: type[Config], name: str, error: Any) -> tuple[str, str]:
    """Return the error text after a setting's name, in two parts: link and advice."""
    setting = find_setting(kind, name)
    last, value, inner = name.rpartition(".")[2], error.get("input"), ""
    if error["type"] == "extra_forbidden":
        if last.lower().replace("-", "_") in _KEYS:
            return ": ", (
                "this would store a key in a file or command that others can read. Set an environment "
                'variable and give its name: `export LAB_KEY=...` and api_key_env = "LAB_KEY".'
            )
        if setting is not None and setting.choice is not None:
            choice = "=".join(setting.choice)
            return " ", f"is used only with {choice}. Remove it, or set {choice}."
        plain = name.removeprefix(f"{kind.rest}.") if kind.rest else name
        free = next((each.path for each in settings_of(kind) if _is_marked(each.info, "free")), None)
        while isinstance(value, dict) and value:
            key, value = next(iter(value.items()))
            inner += f".{key}"
        if free is not None and inner:
            hint = f"Settings of {free} start with `{free}.`: {free}.{plain}{inner}={value}"
        else:
            known = [each.path.removeprefix(f"{kind.rest}.") for each in settings_of(kind)]
            near = get_close_matches(f"{plain}{inner}".replace("-", "_"), known, n=1, cutoff=0.7)
            hint = f"Did you mean {near[0]}?" if near else "See `tagrpo config`."
        return f"{inner}: ", f"unknown setting. {hint}"
    if error["type"] == "union_tag_invalid":
        return f" is {error['ctx']['tag']!r}; ", f"give one of: {error['ctx']['expected_tags']}."
    if error["type"] == "missing":
        return " ", f"is missing. {'' if setting is None else setting.about}".rstrip()
    if error["type"] == "value_error":
        return ": ", str(error["ctx"]["error"])
    if error["type"] in ("model_type", "dict_type"):
        return f" is {value!r}; ", "give a table."
    if setting is None or last.isdigit():
        return ": ", f"{value!r} cannot be used ({error['msg']})."
    words, limits = _type_words(setting.info.annotation), setting.limits
    limits = f"{':' if words == 'one of' else ','} {limits}" if limits else ""
    return f" is {value!r}; ", f"give {words}{limits}."


def _type_words(annotation: Any) -> str:
    leaves = _leaves(annotation)
    for leaf in leaves:
        if get_origin(leaf) is tuple and Ellipsis not in get_args(leaf):
            return f"a list of {len(get_args(leaf))} values"
    words: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", tuple: "a list"}
    words |= {dict: "a table", str: "a string", Literal: "one of"}
    kinds = {get_origin(leaf) or leaf for leaf in leaves}
    return next((words[kind] for kind in words if kind in kinds), "a string")


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and its content; an error names the file and the line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return text, tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not valid TOML ({error}).") from error


def _lines(text: str) -> dict[Place, int]:
    """Return the line of each key of a TOML file, by its place."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                index = counts.get(table, 0)
                counts[table] = index + 1
                lines.setdefault(table, number)
                table = (*table, index)
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_parts(assignment[1])), number)
    return lines


def _parts(dotted: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _leaves(annotation: Any) -> list[Any]:
    """Return the types that a field takes: the members of unions."""
    if get_origin(annotation) in (Union, UnionType):
        return [leaf for member in get_args(annotation) for leaf in _leaves(member)]
    return [annotation]


def _literals(annotation: Any) -> list[Any]:
    return [each for leaf in _leaves(annotation) if get_origin(leaf) is Literal for each in get_args(leaf)]


def _tables(info: FieldInfo | None) -> list[type[Config]]:
    """Return the configs that a field takes, alone or in a list; none for a plain field."""
    leaves = [] if info is None else _leaves(info.annotation)
    kinds = [kind for leaf in leaves for kind in (leaf, *get_args(leaf))]
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Config)]


def _is_list(info: FieldInfo | None) -> bool:
    return info is not None and bool(_tables(info)) and get_origin(info.annotation) is tuple


def _takes_none(info: FieldInfo | None) -> bool:
    """Return whether `none` unsets a field; where it is one of the choices it is that choice."""
    annotation = info.annotation if info is not None else str
    return NoneType in _leaves(annotation) and "none" not in _literals(annotation)


def _is_marked(info: FieldInfo, mark: str) -> bool:
    return isinstance(extra := info.json_schema_extra, dict) and bool(extra.get(mark))


def _kind_of(table: type[Config]) -> str:
    return str(get_args(table.model_fields["kind"].annotation)[0]) if "kind" in table.model_fields else ""
