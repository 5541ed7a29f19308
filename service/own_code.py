"""Functions of the user's own, named `module:function`: finding them, and which code they are."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.errors import InputError
from service.hashing import file_sha256


def is_own(name: str) -> bool:
    """Return whether a name is `module:function`."""
    module, colon, function = name.partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def load_function(reference: str, what: str) -> Callable[..., Any]:
    """Return the function at `module:function`; `what` names it in errors."""
    module, _, name = reference.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise InputError(
            f"{what}: module {module} cannot be imported ({error}). Install it, or add its folder to "
            "PYTHONPATH."
        ) from error
    except AttributeError as error:
        raise InputError(f"{what}: module {module} has no {name}.") from error
    if not callable(function):
        raise InputError(f"{what}: is {type(function).__name__}, not a function.")
    return function


def source_hash(reference: str) -> str:
    """Return the SHA-256 of the file of an imported `module:function`, "" where it has none."""
    file = importlib.import_module(reference.partition(":")[0]).__file__
    return file_sha256(Path(file)) if file else ""
