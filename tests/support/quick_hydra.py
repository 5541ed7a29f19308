"""verl's configuration composed in half the time: hydra reads no file twice, omegaconf no expression."""

import pickle
from functools import cache
from typing import Any


@cache
def install() -> None:
    """Have hydra keep, for this process, what it has read of files; all of it is still merged anew."""
    from hydra._internal.config_repository import ConfigRepository
    from hydra.core.object_type import ObjectType
    from omegaconf import base

    read = ConfigRepository.load_config
    kept: dict[tuple[str, str, str], bytes] = {}

    def load_config(self: Any, config_path: str) -> Any:
        source = self._find_object_source(config_path=config_path, object_type=ObjectType.CONFIG)
        if source is None or source.scheme() not in ("file", "pkg"):
            return read(self, config_path)
        key = (source.scheme(), source.path, config_path)
        if key not in kept:
            kept[key] = pickle.dumps(read(self, config_path))
        return pickle.loads(kept[key])  # a copy: what is merged into it stays there

    ConfigRepository.load_config = load_config
    base.parse = cache(base.parse)
