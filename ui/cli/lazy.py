"""Modules that are imported when they are first used, so that help does not wait for them."""

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


_eager = builtins.__import__


@contextmanager
def lazy_imports() -> Iterator[None]:
    """Defer the imports in this block, all of the form `from package import module`."""

    def defer(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if not (globals and globals.get("__name__", "").startswith("ui.cli.")):  # another thread imports
            return _eager(name, globals, locals, fromlist, level)
        package = ModuleType(name)
        vars(package).update({module: _LazyModule(f"{name}.{module}") for module in fromlist})
        return package

    builtins.__import__ = defer
    try:
        yield
    finally:
        builtins.__import__ = _eager
