"""The demo that ships with tagrpo: the database of a real demo, packed small and unpacked on first use.

    python -m ui.shipped_demo tagrpo-demo/tagrpo.db     # packs another one to replace it

`README.md` in this folder describes its content.
"""
