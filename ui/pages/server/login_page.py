"""The page that asks for the password: plain HTML in the pages' theme, no script."""

from html import escape

from ui.charts.theme import page_theme

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>tagrpo: sign in</title>
<link rel="icon" href="data:,">
<style>
:root {{ {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
* {{ box-sizing: border-box }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--side);
  color: var(--text); font: 15px/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif }}
form {{ width: min(22rem, calc(100vw - 2rem)); padding: 1.75rem; background: var(--paper);
  border: 1px solid var(--border); border-radius: 10px }}
h1 {{ margin: 0 0 .25rem; font-size: 1.3rem; font-weight: 600 }}
p {{ margin: 0 0 1.1rem; color: var(--muted) }}
p.wrong {{ color: var(--red); margin: .8rem 0 0 }}
label {{ display: block; margin-bottom: .3rem; font-size: .9rem }}
input {{ width: 100%; padding: .55rem .7rem; font: inherit; color: inherit; background: var(--field);
  border: 1px solid var(--border); border-radius: 6px }}
input:focus-visible, button:focus-visible {{ outline: 2px solid var(--primary); outline-offset: 1px }}
button {{ width: 100%; margin-top: 1rem; padding: .55rem; font: inherit; font-weight: 600;
  color: var(--paper); background: var(--primary); border: 0; border-radius: 6px; cursor: pointer }}
</style>
</head>
<body>
<form method="post" action="{action}">
<h1>tagrpo</h1>
<p>These pages are protected by a password.</p>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="next" value="{next}">
{message}<button type="submit">Sign in</button>
</form>
</body>
</html>
"""

_NAMES = {
    "paper": "backgroundColor",
    "field": "secondaryBackgroundColor",
    "text": "textColor",
    "muted": "grayColor",
    "border": "borderColor",
    "primary": "primaryColor",
    "red": "redColor",
}


def login_page(action: str, following: str, message: str = "") -> bytes:
    """Return the page; `following` is where the browser goes afterwards."""
    said = f'<p class="wrong" role="alert">{escape(message)}</p>\n' if message else ""
    return _PAGE.format(
        light=_colours("light"),
        dark=_colours("dark"),
        action=escape(action, quote=True),
        next=escape(following, quote=True),
        message=said,
    ).encode("utf-8")


def _colours(mode: str) -> str:
    theme = page_theme()
    named = {name: theme[f"theme.{mode}.{option}"] for name, option in _NAMES.items()}
    named["side"] = theme[f"theme.{mode}.sidebar.backgroundColor"]
    return " ".join(f"--{name}: {value};" for name, value in named.items())
