"""Configs: frozen models that are at once Python API, file, `key=value` words, stored form and reference.

    class Sampling(Config):
        temperature: float = Field(0.6, ge=0, le=10, description="Temperature.")

The command line reads one from files and words (`service.config.reading`).
"""

import tomllib
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from service.errors import InputError
from service.writing import read_text

OPERATIONAL: dict[str, Any] = {"operational": True}
"""`json_schema_extra` of a field that shapes no result: another invocation of a run may change it."""

operational = partial(Field, json_schema_extra=OPERATIONAL)
"""A field that is marked so."""

FREE: dict[str, Any] = {"free": True}
"""`json_schema_extra` of a list of texts, `KEY=VALUE` of another program; files may give them as a table."""


class Config(BaseModel):
    """Base of all settings. A long description of a field is the text below it.

    `leading` is the field that a mere text gives, `rest` the table that takes keys that are no field.
    `tagrpo config VERB` prints the settings, if the config is that of a command.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, use_attribute_docstrings=True)
    leading: ClassVar[str] = ""
    rest: ClassVar[str] = ""
    verb: ClassVar[str] = ""

    def stored(self) -> dict[str, Any]:
        """Return the form that is kept with a run."""
        return {"schema": 1, **self.model_dump(mode="json")}


def pick(config: Config, part: type[Config]) -> dict[str, Any]:
    """Return the values of a config for the fields of one of the classes that it builds on."""
    return {name: getattr(config, name) for name in part.model_fields}


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and its content; an error names the file and the line."""
    text = read_text(path)
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML ({error}).") from error
