"""Modules that are imported when they are first used, so that help does not wait for them."""

import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


@contextmanager
def lazy_imports() -> Iterator[None]:
    """Defer the imports in this block, all of the form `from package import module`."""
    eager = builtins.__import__

    def defer(name: str, caller: Mapping[str, Any] | None = None, *more: Any) -> ModuleType:
        if not (caller and caller["__name__"].startswith("ui.cli.")):  # another thread
            return eager(name, caller, *more)
        package = ModuleType(name)
        vars(package).update({module: _LazyModule(f"{name}.{module}") for module in more[1]})
        return package

    builtins.__import__ = defer
    try:
        yield
    finally:
        builtins.__import__ = eager
