"""Read a config from TOML files, profiles, flags and `key=value` words; report all errors at once.

    reading = Reading(RephraseConfig)
    reading.add_file(Path("my.toml"))
    reading.add_words(["solver.max_tokens=2048"])
    config = reading.build()

Later values win. A text in place of a table is the value of its leading field: `solver=MODEL` is
`solver.model=MODEL`, and `proposer=rules` is `proposer.kind=rules`. In a list of tables, `[solver]` and
`solver.max_tokens` apply to every table and `solver.0.max_tokens` to the first. `none` unsets an optional
setting. A field marked `FREE` collects settings of another program: `verl.trainer.save_freq=5` adds the text
`trainer.save_freq=5` to the field `verl`. A config with a `rest` reads unknown keys as keys of that table:
`anchor=own` is `recipe.anchor=own`.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from service.asks.redaction import redact
from service.config import Config, read_toml
from service.config.fields import Setting, fields_of, find_setting, kind_of, settings_of
from service.errors import InputError, suggest

PROFILES = "endpoint"
"""The table of a file whose tables are profiles, and the field that names one."""

_KEYS = ("key", "api_key", "token", "password")
"""Names by which a user may try to give a key."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")

C = TypeVar("C", bound=Config)
Place = tuple[str | int, ...]
"""The names and list indices that lead to a value."""


class Reading(Generic[C]):
    """Collects the values of a config in order, and builds it."""

    def __init__(self, kind: type[C], flags: Mapping[str, str] = {}) -> None:
        """Set up; `flags` are the command's flags by the setting that they give."""
        self._kind, self._flags = kind, flags
        self._given: dict[Place, Any] = {}  # no place lies within another one
        self._sources: dict[Place, str] = {}  # `my.toml:4: ` or `--n: `, as errors begin
        self._profiles: dict[str, dict[str, Any]] = {}
        self._problems: list[str] = []

    def add_file(self, path: Path, *, profiles_only: bool = False) -> None:
        """Read a TOML file; with `profiles_only` it may hold nothing but `[endpoint.NAME]`."""
        text, tables = read_toml(path)
        self._sources |= {at: f"{path}:{line}: " for at, line in _lines(text).items()}
        profiles = tables.pop(PROFILES) if isinstance(tables.get(PROFILES), dict) else {}
        wrong = [f"{PROFILES}.{name}" for name, profile in profiles.items() if not isinstance(profile, dict)]
        if wrong := [*wrong, *(tables if profiles_only else ())]:
            raise InputError(
                f"{path}: {', '.join(wrong)}: not a profile, which is a table [{PROFILES}.NAME]. Put other "
                "settings into another file and pass it with -c FILE."
            )
        self._profiles |= profiles
        self.add(tables)

    def add(self, values: Mapping[str, Any]) -> None:
        """Take values by field."""
        for name, value in values.items():
            self._take((name,), value)

    def add_words(self, words: Sequence[str]) -> None:
        """Take `key=value` words."""
        for word in words:
            key, equals, text = word.partition("=")
            if not equals:
                raise InputError(f"{word}: write settings as KEY=VALUE.")
            self.set(key, text)

    def set(self, key: str, value: Any, source: str = "") -> None:
        """Set one field by its dotted name; a text is read as the field's type. `source` begins errors."""
        setting = find_setting(self._kind, key)
        if setting is not None and setting.free and key != setting.path:
            inner = key.removeprefix(f"{setting.path}.")
            removes = inner.startswith("~") and not value  # verl.~KEY= removes a setting of verl
            key, value = setting.path, [inner if removes else f"{inner}={value}"]
        if isinstance(value, str):
            value = _parse(setting, value)
        at = tuple(int(part) if part.isdigit() else part for part in key.split("."))
        others = (each for each in self._sources if each[0] == PROFILES or not _is_within(each, at))
        self._sources = {each: self._sources[each] for each in others} | {at: source}
        self._take(at, value)

    def _take(self, at: Place, value: Any) -> None:
        """Put the plain values within a value."""
        setting = self._find(at)
        is_table = setting is not None and bool(setting.tables)
        if setting is not None and is_table and not isinstance(value, dict):
            value = self._as_table(at, setting, value)
        if isinstance(value, dict) and not (setting is not None and setting.free) and (value or is_table):
            for name in sorted(value, key=lambda name: name != "kind"):  # which drops what is of another kind
                self._take((*at, name), value[name])
        else:
            self._put(at, value)

    def _as_table(self, at: Place, setting: Setting, value: Any) -> Any:
        """Return what a text or a list stands for where tables are expected."""
        leading = setting.tables[0].leading
        if setting.is_list and isinstance(at[-1], str):
            self._drop(each for each in self._given if each[: len(at)] == at and isinstance(each[1], int))
            items = [] if value in ("none", None) else [value]
            return dict(enumerate(value if isinstance(value, list) else items))
        if not leading or not isinstance(value, str):
            return value
        return None if value == "none" and setting.takes_none else {leading: value}

    def _put(self, at: Place, value: Any) -> None:
        """Replace what was given at this place."""
        setting, union = self._find(at), self._find(at[:-1])
        if setting is None:
            self._report(at, {"type": "extra_forbidden", "input": value})
            return
        if self._kind.rest and at[0] not in self._kind.model_fields:
            at = (self._kind.rest, *at)
        if at[-1] == "kind" and union is not None and len(union.tables) > 1:
            kind = self._given.get(at, kind_of(union.tables[0]))
            if value != kind:
                self._drop(each for each in self._given if each[: len(at) - 1] == at[:-1])
        if setting.free:
            value = [*self._given.get(at, ()), *(value if isinstance(value, list) else [value])]
        for each in (each for each in self._given if each == at[: len(each)] and each != at):
            if self._given[each] is not None and (table := self._find(each)) is not None and table.tables:
                self._report(each, {"type": "model_type", "input": self._given[each]})
        self._drop(each for each in self._given if _is_within(each, at) or each == at[: len(each)])
        self._given[at] = value

    def _find(self, at: Place) -> Setting | None:
        return find_setting(self._kind, ".".join(map(str, at)))

    def _drop(self, places: Iterable[Place]) -> None:
        for at in [*places]:
            del self._given[at]

    def build(self) -> C:
        """Return the config."""
        kinds = {each.choice[1] for each in fields_of(self._kind) if each.choice}
        try:
            values = to_json(self._nested(), fallback=str)
            config = self._kind.model_validate_json(values, strict=True)
        except ValidationError as error:
            errors = {_without_type(each["loc"]): each for each in error.errors()}
            for loc, each in sorted(errors.items(), key=lambda item: item[1]["type"] == "missing"):
                at = tuple(part for part in loc if part not in kinds)
                known = (at[:length] for length in range(len(at), 0, -1) if self._find(at[:length]))
                self._report(next(known, at), each)
        else:
            if not self._problems:
                return config
        problems = list(dict.fromkeys(map(redact, self._problems)))
        count = [f"{len(problems)} settings are invalid:"] if len(problems) > 1 else []
        raise InputError("\n  ".join([*count, *problems]))

    def profile(self, name: str) -> Mapping[str, Any]:
        """Return the values of a profile."""
        if name not in self._profiles:
            available = ", ".join(self._profiles) or "none"
            self._problems.append(f"[{PROFILES}.{name}] does not exist. Available: {available}.")
        return self._profiles.get(name, {})

    def _nested(self) -> dict[str, Any]:
        """Return the values for pydantic. A table without its leading field is left out if it may be."""
        nested = self._table(())
        for field in (each for each in fields_of(self._kind) if each.tables and "." not in each.path):
            name, table = field.path, field.tables[0]
            if field.info.is_required():
                nested.setdefault(name, {})
            if not isinstance(nested.get(name), dict):
                continue
            values = self._table((name,))
            if field.is_list:
                numbers = [at[1] for at in self._given if at[0] == name and isinstance(at[1], int)]
                count = max(numbers) + 1 if numbers else int(table.leading in values)
                nested[name] = [self._table((name,), (name, number)) for number in range(count)]
            elif len(field.tables) > 1:
                nested[name] = {"kind": kind_of(table), **values}
            else:  # settings of what is not there
                nested[name] = None if field.takes_none and table.leading not in values else values
        return nested

    def _table(self, *places: Place) -> dict[Any, Any]:
        """Return the values of a table: its profile's, then those at these places; later ones win."""
        given: dict[Place, Any] = {}
        for place in places:
            size = len(place)
            within = {at[size:]: value for at, value in self._given.items() if at[:size] == place}
            given |= {at: value for at, value in within.items() if at and isinstance(at[0], str)}
        if isinstance(name := given.get((PROFILES,)), str) and name != "none":
            profile = self.profile(name)
            for key in (key for key in profile if (key,) not in given):
                self._sources[*places[-1], key] = self._source((PROFILES, name, key))
            given = {(key,): value for key, value in profile.items()} | given | {(PROFILES,): None}
        nested: dict[Any, Any] = {}
        for at, value in given.items():
            table = nested
            for part in at[:-1]:
                table[part] = table.get(part) if isinstance(table.get(part), dict) else {}
                table = table[part]
            setting = self._find((*places[-1], *at))
            is_whole = setting is not None and setting.path == ".".join(map(str, _plain((*places[-1], *at))))
            if setting is not None and is_whole and value == "none" and setting.takes_none:
                value = None
            elif setting is not None and isinstance(value, str) and tuple[str, ...] in setting.types:
                value = [value]
            table[at[-1]] = value
        return nested

    def _report(self, at: Place, error: Any) -> None:
        """Note an error as pydantic describes it, after what gave the value."""
        self._problems.append(self._source(at) + _problem(self._kind, at, error, self._flags))

    def _source(self, at: Place) -> str:
        """Return the line or the flag that gave a value; empty for a word."""
        alike = [at, _plain(at), *([at[1:]] if self._kind.rest in at[:1] else [])]
        places = [place[:length] for length in range(len(at), 0, -1) for place in alike]
        return next((self._sources[place] for place in places if place in self._sources), "")


def _plain(at: Place) -> Place:
    """Return a place without list indices: that of the same setting for all tables of a list."""
    return tuple(part for part in at if isinstance(part, str))


def _without_type(place: Place) -> Place:
    """Return a place without the type that pydantic adds for each number type that a value does not fit."""
    return place[:-1] if place[-1:] in (("int",), ("float",)) else place


def _is_within(place: Place, at: Place) -> bool:
    """Return whether a place is another one or within it; without indices that is within all items."""
    return at in (place[: len(at)], _plain(place)[: len(at)])


def _problem(kind: type[Config], at: Place, error: Any, flags: Mapping[str, str]) -> str:
    """Return what is wrong with a setting, and the way out."""
    name = ".".join(map(str, at))
    setting, value = find_setting(kind, name), error["input"]
    plain = name.removeprefix(f"{kind.rest}.")
    name = name if plain.partition(".")[0] in kind.model_fields else plain
    last = name.rpartition(".")[2]
    match error["type"]:
        case "extra_forbidden" if last.lower().replace("-", "_") in _KEYS:
            return (
                f"{name}: this would store a key in a file or command that others can read. Set an "
                'environment variable and give its name: `export LAB_KEY=...` and api_key_env = "LAB_KEY".'
            )
        case "extra_forbidden" if setting is not None and setting.choice is not None:
            choice = "=".join(setting.choice)
            return f"{name} is used only with {choice}. Remove it, or set {choice}."
        case "extra_forbidden":
            return f"{name}: unknown setting. {_hint(kind, name, value)}"
        case "union_tag_invalid":
            return f"{name} is {value['kind']!r}; give one of: {error['ctx']['expected_tags']}."
        case "missing":
            ways = [f"Pass {flags[name]}"] if name in flags else []
            if ways and setting is not None and setting.choice is not None:
                others = {each.choice for each in fields_of(kind)} - {setting.choice}
                ways += sorted(f"set {'='.join(each)}" for each in others if each is not None)
            way = f" {', or '.join(ways)}." if ways else ""
            return f"{name} is missing.{way} {setting.about if setting else ''}".rstrip()
        case "value_error":
            return f"{name and f'{name}: '}{error['ctx']['error']}"
        case "model_type" | "dict_type":
            return f"{name} is {value!r}; give a table."
    if setting is None or setting.takes_keys or last.isdigit():
        return f"{name}: {value!r} cannot be used ({error['msg']})."
    words, limits = setting.type_words, setting.limits
    limits = f"{':' if words == 'one of' else ','} {limits}" if limits else ""
    return f"{name} is {value!r}; give {words}{limits}."


def _hint(kind: type[Config], name: str, value: Any) -> str:
    """Return what may have been meant by an unknown setting."""
    settings = settings_of(kind)
    free = next((each.path for each in settings if each.free), None)
    first = find_setting(kind, name.partition(".")[0])
    if free is not None and "." in name and (first is None or not first.tables):
        return f"Settings of {free} start with `{free}.`: {free}.{name}={value}"
    known = [each.path.removeprefix(f"{kind.rest}.") for each in settings]
    return suggest(name.replace("-", "_"), known, kind.verb and f"See `tagrpo config {kind.verb}`.")


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
    reading.add({key: value for key, value in stored.items() if key != "schema"})
    for word in words:
        key, _, text = word.partition("=")
        if key.rpartition(".")[2] == PROFILES:  # over what is stored
            for field, value in reading.profile(text).items():
                reading.set(f"{key.removesuffix(PROFILES)}{field}", value, f"{word}: ")
        else:
            reading.add_words([word])
    return reading.build()


def _parse(setting: Setting | None, text: str) -> Any:
    """Return the value that a text gives in a setting; a text that does not fit stays a text."""
    known = None if setting is None or setting.tables or setting.takes_keys else setting
    types: list[Any] = known.types if known is not None else []
    annotation: Any = known.info.annotation if known is not None else Any
    if str in types or Path in types:
        return text
    numbers: list[Callable[[str], Any]] = [kind for kind in (int, float) if kind in types]
    for parse in (*numbers, json.loads, lambda text: tomllib.loads(f"value = {text}")["value"], _split_list):
        with suppress(ValueError, RecursionError):
            value = parse(text.lower() if bool in types else text)
            TypeAdapter(annotation).validate_json(to_json(value), strict=True)
            return value
    return text


def _split_list(text: str) -> list[str]:
    """Return the items of `[a, b]`, which need no quotes."""
    if not text.startswith("["):
        raise ValueError(text)
    return [part.strip().strip("\"'") for part in text.strip("[]").split(",") if part.strip()]


def _lines(text: str) -> dict[Place, int]:
    """Return the line of each key of a TOML file, by its place."""
    lines: dict[Place, int] = {}
    counts: Counter[Place] = Counter()
    table: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                lines.setdefault(table, number)
                counts[table] += 1
                table = (*table, counts[table] - 1)
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_parts(assignment[1])), number)
    return lines


def _parts(dotted: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
