"""The demo that ships with tagrpo: a real demo's database, packed small, unpacked on first use.

    python -m ui.shipped_demo tagrpo-demo/tagrpo.db     # packs another one in its place

`README.md` beside this file says what is in it.
"""
