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
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from service.asks.redaction import redact
from service.errors import InputError

OPERATIONAL: dict[str, Any] = {"operational": True}
"""`json_schema_extra` of a field that shapes no result: another invocation of a run may change it."""

operational = partial(Field, json_schema_extra=OPERATIONAL)
"""A field that is marked so."""

FREE: dict[str, Any] = {"free": True}
"""`json_schema_extra` of a list of texts, `KEY=VALUE` of another program; files may give them as a table."""

ONCE: dict[str, Any] = {**OPERATIONAL, "once": True}
"""The same for a field of one invocation only: no run keeps it."""

PROFILES = "endpoint"
"""The table of a file whose tables are profiles, and the field that names one."""

SCHEMA = 1
"""The version of stored configs."""

_KEYS = ("key", "api_key", "token", "password")
_UNSHOWN = (*_KEYS, "api_key_env")
"""Settings whose values no message repeats."""
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")

Place = tuple[str | int, ...]


class Config(BaseModel):
    """Base of all settings.

    `leading` is the field that a mere text gives, `rest` the table that takes keys that are no field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    leading: ClassVar[str] = ""
    rest: ClassVar[str] = ""

    def stored(self) -> dict[str, Any]:
        """Return the form that is kept with a run; `read_stored` reads it."""
        of_one_call = {
            name for name, info in type(self).model_fields.items() if info.json_schema_extra == ONCE
        }
        return {"schema": SCHEMA, **self.model_dump(mode="json", exclude=of_one_call)}


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class Setting:
    """One field of a config. `choice` is (path of the union, its kind) if the field belongs to one kind."""

    path: str
    info: FieldInfo
    choice: tuple[str, str] | None = None

    @property
    def operational(self) -> bool:
        """Whether the setting has no effect on results."""
        return _is_marked(self.info, "operational")

    @property
    def free(self) -> bool:
        """Whether it collects settings of another program."""
        return _is_marked(self.info, "free")

    @property
    def default(self) -> Any:
        """The default; None if it is required or not set."""
        return None if self.info.is_required() else self.info.get_default(call_default_factory=True)

    def to_json(self) -> dict[str, Any]:
        return {
            "about": self.info.description,
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
        bounds = {
            name: f"{value:,}" if isinstance(value, int) else f"{value:g}"
            for rule in self.info.metadata
            for name in ("ge", "gt", "le", "lt")
            if (value := getattr(rule, name, None)) is not None
        }
        if "ge" in bounds and "le" in bounds:
            return f"{bounds['ge']} to {bounds['le']}"
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        return " and ".join(f"{words[name]} {bounds[name]}" for name in words if name in bounds)


@cache
def settings_of(kind: type[Config]) -> tuple[Setting, ...]:
    """Return all settings of a config by dotted path, those of nested tables included."""
    return tuple(_settings(kind, ""))


def _settings(kind: type[Config], prefix: str) -> Iterator[Setting]:
    for name, info in _fields(kind):
        tables = _tables(info)
        if not tables:
            yield Setting(prefix + name, info)
        for table in tables:
            choice = (prefix + name, _kind_of(table)) if len(tables) > 1 else None
            for inner in _settings(table, f"{prefix}{name}."):
                if table is tables[0] or inner.path != f"{prefix}{name}.kind":
                    yield Setting(inner.path, inner.info, inner.choice or choice)


def _fields(kind: type[Config]) -> list[tuple[str, FieldInfo]]:
    """Return the fields of a config, those of its own class before those of the classes that it builds on."""
    names = dict.fromkeys(name for base in kind.__mro__ for name in vars(base).get("__annotations__", ()))
    return [(name, kind.model_fields[name]) for name in names if name in kind.model_fields]


def find_setting(kind: type[Config], path: str) -> Setting | None:
    """Return the setting of a path, None where there is none; places in lists are left out of it."""
    plain = ".".join(part for part in path.split(".") if not part.isdigit())
    for each in settings_of(kind):
        if each.path == plain or (each.free and plain.startswith(f"{each.path}.")):
            return each
    if kind.rest and plain.partition(".")[0] not in kind.model_fields:
        return find_setting(kind, f"{kind.rest}.{plain}")
    return None


class Reading(Generic[C]):
    """Collects the values of a config, each with the place that gave it, and builds it once."""

    def __init__(self, kind: type[C]) -> None:
        self._kind = kind
        self._values: dict[Any, Any] = {}  # of a list of tables: "all" for those to come, and "each"
        self._places: dict[Place, str] = {}
        self._profiles: dict[str, tuple[dict[str, str], dict[str, Any]]] = {}
        self._problems: list[str] = []
        self._misfits: list[str] = []  # values of a wrong type: their names, each with a final dot

    def add_file(self, path: Path, *, profiles_only: bool = False) -> None:
        """Read a TOML file; with `profiles_only` it may hold nothing but `[endpoint.NAME]`."""
        text, tables = read_toml(path)
        lines = _lines(text)

        def place_of(at: Place) -> str:
            while at and at not in lines:
                at = at[:-1]
            return f"{path}:{lines.get(at, 1)}: "

        profiles = tables.pop(PROFILES, {}) if isinstance(tables.get(PROFILES, {}), dict) else {}
        for name, profile in profiles.items():
            if isinstance(profile, dict):
                self._profiles[name] = {key: place_of((PROFILES, name, key)) for key in profile}, profile
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
            self._take(self._kind, self._values, (), tables, place_of)

    def add_words(self, words: Sequence[str]) -> None:
        """Take `key=value` words."""
        for word in words:
            key, equals, text = word.partition("=")
            if not equals and "~" not in key:  # verl.~KEY removes a setting
                raise InputError(f"{word}: write settings as KEY=VALUE.")
            self.set(key, text, "" if key.rpartition(".")[2] in _UNSHOWN else f"{word}: ")

    def set(self, key: str, value: Any, place: str) -> None:
        """Set one field by its dotted name; a text is read as the field's type. Errors name the `place`."""
        setting = find_setting(self._kind, key)
        if setting is not None and setting.free and key != setting.path:
            inner = key.removeprefix(f"{setting.path}.")
            removes = inner.startswith("~") and not value
            key, value = setting.path, [inner if removes else f"{inner}={value}"]
        if isinstance(value, str):  # without a setting: in a free mapping, or names of a list of tables
            value = read_text(Any if setting is None else setting.info.annotation, value)
        for part in reversed(key.split(".")):
            value = {int(part) if part.isdigit() else part: value}
        self._take(self._kind, self._values, (), value, lambda _: place)

    def build(self) -> C:
        """Return the config."""
        values = self._resolve(self._kind, self._values, ())
        try:
            config = self._kind.model_validate(values)
        except ValidationError as error:
            for each in sorted(error.errors(), key=lambda each: each["type"] == "missing"):
                name = ".".join(map(str, self._untagged(each["loc"])))
                misspelled = each["type"] == "missing" and f"Did you mean {name}?" in "".join(self._problems)
                if not misspelled and not f"{name}.".startswith(tuple(self._misfits)):
                    self._problems.append(self._words(each))
        else:
            if not self._problems:
                return config
        problems = list(dict.fromkeys(map(redact, self._problems)))
        if len(problems) == 1:
            raise InputError(problems[0])
        raise InputError("\n  ".join([f"{len(problems)} settings are invalid:", *problems]))

    def _take(
        self,
        table: type[Config] | None,
        values: dict[Any, Any],
        at: Place,
        new: Mapping[Any, Any],
        place_of: Callable[[Place], str],
    ) -> None:
        """Put new values of a table at a place into those it has; `table` is None in a free mapping."""
        for name, value in new.items():
            here: Place = (*at, name)
            info = table.model_fields.get(str(name)) if table is not None else None
            if table is not None and table.rest and info is None:
                of_rest = {table.rest: {name: value}}
                self._take(table, values, at, of_rest, lambda place: place_of(place[1:]))
                continue
            self._places[here] = place_of(here)
            tables = _tables(info) if info is not None else []
            if info is None and table is not None:
                self._problems.append(self._words({"type": "extra_forbidden", "loc": here, "input": value}))
            elif info is not None and _is_marked(info, "free"):
                values[name] = [*values.get(name, ()), *(value if isinstance(value, list) else [value])]
            elif info is not None and _is_list(info):
                several = values.setdefault(name, {"all": {}, "each": None})
                self._take_list(tables[0], several, here, value, place_of)
            else:
                leading = "" if not tables else tables[0].leading if len(tables) == 1 else "kind"
                if isinstance(value, str) and leading and not (value == "none" and _takes_none(info)):
                    value = {leading: value}
                if not isinstance(value, dict) or not (value or tables):
                    values[name] = value
                    continue
                inner = values.get(name)
                inner = inner if isinstance(inner, dict) else {}
                kind: Any = ""
                if len(tables) > 1:
                    before = inner.get("kind", _kind_of(tables[0]))
                    kind = value.get("kind", before)
                    inner = inner if kind == before else {}  # without the settings of the previous choice
                values[name] = inner
                self._take(_member(tables, kind), inner, here, value, place_of)

    def _take_list(
        self, table: type[Config], several: Any, at: Place, new: Any, place_of: Callable[[Place], str]
    ) -> None:
        """Take values of a list of tables: of those by number, or of all of them."""
        if not isinstance(new, dict):
            new = dict(enumerate(new if isinstance(new, list) else [] if new in ("none", None) else [new]))
            several["each"] = []
        for key, inner in new.items():
            items: list[Any] = several["each"] or []
            if isinstance(key, int):
                items += [deepcopy(several["all"]) for _ in range(len(items), key + 1)]
                several["each"] = items
                values = inner if isinstance(inner, dict) else {table.leading: inner}
                self._take(table, items[key], (*at, key), values, place_of)
            else:
                if key == table.leading and not items:  # after `none`
                    several["each"] = None
                self._take(table, several["all"], at, {key: inner}, place_of)
                for item in items if key in table.model_fields else ():
                    self._take(table, item, at, {key: inner}, place_of)

    def _resolve(self, table: type[Config], values: Mapping[Any, Any], at: Place) -> dict[str, Any]:
        """Return the values of a table for pydantic: lists of tables, profiles and `none` put in place."""
        if isinstance(profile := values.get(PROFILES), str) and PROFILES in table.model_fields:
            values = {**self._profile(profile, at), **values, PROFILES: None}
        missing: dict[str, Any] = {
            name: {} for name, info in table.model_fields.items() if info.is_required() and _tables(info)
        }
        resolved: dict[str, Any] = {}
        for name, value in {**missing, **values}.items():
            here = (*at, name)
            info = table.model_fields.get(name)
            if info is None:
                resolved[name] = value
                continue
            tables = _tables(info)
            if value == "none" and _takes_none(info):
                value = None
            elif tables and _is_list(info):
                items = value.get("each")
                if items is None:
                    items = [value["all"]] if tables[0].leading in value.get("all", ()) else []
                value = [self._resolve(tables[0], item, (*here, n)) for n, item in enumerate(items)]
            elif tables and isinstance(value, dict):
                member = _member(tables, value.get("kind", "")) or tables[0]
                value = self._resolve(member, value, here)
                if len(tables) > 1:
                    value.setdefault("kind", _kind_of(member))
                elif _takes_none(info) and member.leading not in value:
                    continue  # settings of what is not there
            elif isinstance(value, str) and _takes_texts(info.annotation):
                value = [value]
            elif not tables and not _is_marked(info, "free") and not _fits(info.annotation, value):
                self._misfits.append(".".join(map(str, (*here, ""))))
                self._problems.append(self._words({"type": "strict", "loc": here, "input": value}))
            resolved[name] = value
        return resolved

    def _profile(self, name: str, at: Place) -> dict[str, Any]:
        if name not in self._profiles:
            available = ", ".join(self._profiles) or "none"
            self._problems.append(
                f"{self._place((*at, PROFILES))}[{PROFILES}.{name}] does not exist. Available: {available}."
            )
            return {}
        places, profile = self._profiles[name]
        for key, place in places.items():
            self._places.setdefault((*at, key), place)
        return profile

    def _place(self, at: Place) -> str:
        """Return the place that gave a value, or the nearest table around it."""
        plain = tuple(part for part in at if not isinstance(part, int))
        nearest = (each[:length] for length in range(len(at), 0, -1) for each in (at, plain))
        return next((self._places[each] for each in nearest if each in self._places), "")

    def _words(self, error: Any) -> str:
        """Return one of pydantic's errors as place, name, what is wrong and the way out."""
        at = self._untagged(error["loc"])
        inner, outer = (find_setting(self._kind, ".".join(map(str, each))) for each in (at, at[:-1]))
        if inner is None and outer is not None:  # a member of a union of types
            at, inner = at[:-1], outer
        name, place = ".".join(map(str, at)), self._place(at)
        link, advice = _problem(self._kind, name, inner, error)
        key = place.removesuffix(": ").partition("=")[0].removeprefix("--")
        if key and f".{name}".endswith(f".{key}"):  # a word or a flag that already names the setting
            return place.removesuffix(": ") + (link if place.startswith("--") else ": ") + advice
        if error["type"] == "extra_forbidden" and self._kind.rest:
            name = name.removeprefix(f"{self._kind.rest}.")
        return place + (name + link if name else "") + advice

    def _untagged(self, loc: Place) -> Place:
        """Return a place without the kinds of unions, which pydantic puts into it."""
        choices = {each.choice for each in settings_of(self._kind)}
        at: list[str | int] = []
        for part in loc:
            if (".".join(map(str, at)), part) not in choices:
                at.append(part)
        return tuple(at)


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
    for key, value in stored.items():
        if key != "schema":
            reading.set(key, value, "")
    for word in words:
        key, _, text = word.partition("=")
        if key.rpartition(".")[2] == PROFILES:  # over what is stored
            for field, value in reading._profile(text, ()).items():
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
            if _fits(annotation, value := parse(text.lower() if bool in leaves else text)):
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
    lines = [*(f"# {line}".rstrip() for line in about.splitlines()), *_template(kind, "")]
    return "\n".join(lines) + "\n"


def _template(kind: type[Config], prefix: str) -> Iterator[str]:
    nested = []
    for name, info in _fields(kind):
        if _tables(info):
            nested.append((name, info))
            continue
        setting = Setting(prefix + name, info)
        limits = f" ({setting.limits})" if setting.limits else ""
        required = " Required." if info.is_required() else ""
        yield ""
        yield f"# {info.description}{limits}{required}"
        default = _kind_of(kind) if name == "kind" else setting.default
        yield f"# {name} = {_toml(default)}".rstrip()
    for name, info in nested:
        tables = _tables(info)
        for table in tables:
            usual = table is tables[0]
            yield ""
            yield f"# {summary(table)}"
            if _is_list(info):
                yield f"# [[{prefix}{name}]] once per item; [{prefix}{name}] applies to all items."
            yield f"{'' if usual else '# '}[{prefix}{name}]"
            yield from _template(table, f"{prefix}{name}.")


def pick(config: Config, part: type[Config]) -> dict[str, Any]:
    """Return the values of a config for the fields of one of the classes that it builds on."""
    return {name: getattr(config, name) for name in part.model_fields}


def summary(kind: type[Config]) -> str:
    """Return the first sentence of a config's docstring."""
    return (kind.__doc__ or "").strip().splitlines()[0]


def _toml(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False, default=str)


def _problem(kind: type[Config], name: str, setting: Setting | None, error: Any) -> tuple[str, str]:
    """Return the error text after a setting's name, in two parts: link and advice."""
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
        free = next((each.path for each in settings_of(kind) if each.free), None)
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
        return " ", f"is missing. {'' if setting is None else setting.info.description}".rstrip()
    if error["type"] == "value_error":
        return ": ", str(error["ctx"]["error"])
    if setting is None or last.isdigit():
        return ": ", f"{value!r} cannot be used ({error['msg']})."
    words, limits = _type_words(setting.info.annotation), setting.limits
    limits = f"{':' if words == 'one of' else ','} {limits}" if limits else ""
    return f" is {value!r}; ", f"give {words}{limits}."


def _fits(annotation: Any, value: Any) -> bool:
    """Return whether a value has the field's type; pydantic would take "5" for 5 and 1 for true."""
    if isinstance(value, str) and _literals(annotation):
        return True  # pydantic knows the choices, also those of a union
    with suppress(ValidationError):
        TypeAdapter(annotation).validate_json(json.dumps(value, default=str), strict=True)
        return True
    return value is None


def _type_words(annotation: Any) -> str:
    leaves = _leaves(annotation)
    for kind, words in ((bool, "true or false"), (int, "an integer"), (float, "a number")):
        if kind in leaves:
            return words
    for leaf in leaves:
        if get_origin(leaf) in (tuple, list):
            return "a list" if Ellipsis in get_args(leaf) else f"a list of {len(get_args(leaf))} values"
    if any(get_origin(leaf) is dict for leaf in leaves):
        return "a table"
    return "one of" if _literals(annotation) else "a string"


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
    """Return the types that a field takes: members of unions, without what `Annotated` adds."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _leaves(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [leaf for member in get_args(annotation) for leaf in _leaves(member)]
    return [annotation]


def _literals(annotation: Any) -> list[Any]:
    return [each for leaf in _leaves(annotation) if get_origin(leaf) is Literal for each in get_args(leaf)]


def _tables(info: FieldInfo) -> list[type[Config]]:
    """Return the configs that a field takes, alone or in a list; none for a plain field."""
    leaves = _leaves(info.annotation)
    if _is_list(info):
        leaves = [inner for leaf in leaves for inner in _leaves(get_args(leaf)[0])]
    return [leaf for leaf in leaves if isinstance(leaf, type) and issubclass(leaf, Config)]


def _takes_texts(annotation: Any) -> bool:
    """Return whether a field takes a list of texts, so that a text alone is a list of one."""
    return any(get_origin(leaf) is tuple and get_args(leaf)[0] is str for leaf in _leaves(annotation))


def _is_list(info: FieldInfo) -> bool:
    leaf = _leaves(info.annotation)[0]
    return get_origin(leaf) is tuple and any(
        isinstance(inner, type) and issubclass(inner, Config) for inner in get_args(leaf)
    )


def _takes_none(info: FieldInfo | None) -> bool:
    """Return whether `none` unsets a field; where it is one of the choices it is that choice."""
    annotation = info.annotation if info is not None else str
    return NoneType in _leaves(annotation) and "none" not in _literals(annotation)


def _is_marked(info: FieldInfo, mark: str) -> bool:
    return isinstance(extra := info.json_schema_extra, dict) and bool(extra.get(mark))


def _kind_of(table: type[Config]) -> str:
    return str(get_args(table.model_fields["kind"].annotation)[0]) if "kind" in table.model_fields else ""


def _member(tables: list[type[Config]], kind: str) -> type[Config] | None:
    """Return the config of a choice by its kind, the first if it is not given; None if it is unknown."""
    return next((table for table in tables if kind in ("", _kind_of(table))), None)
