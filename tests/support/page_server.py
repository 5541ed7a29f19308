"""Serves a script of the tests as `tagrpo ui` serves its pages: the same gate, the same headers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from service.web import Address, bind
from ui.pages.server import serving
from ui.pages.state import settings


def main(script: str, database: str) -> None:
    listening, address = bind(Address(port=0))
    settings.use(settings.PageSettings(Path(database)))
    serving.serve(
        listening,
        address,
        ready=lambda: print(f"tagrpo UI at {address.url}", flush=True),
        script=Path(script),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
