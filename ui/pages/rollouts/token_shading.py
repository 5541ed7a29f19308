"""A response with its tokens shaded by their log-ratios, as one block of HTML."""

import html

import streamlit as st

from trainer_adapter.record.rollout import TokenRatios
from ui.characters import visible_pieces
from ui.pages.text.markup import CUT_AT, MARKDOWN_MAX, ask_for_all
from ui.pages.widgets import layout

FULL_AT = 3.0
"""Nats at which a colour is at its strongest."""

LEVELS = 6
_NO_TEXT = "∎"
_LESS, _MORE = "213,94,0", "0,114,178"  # vermilion and blue of Okabe and Ito: told apart by all eyes


def _style() -> str:
    shades = "".join(
        f".tokens .{name}{level}{{background:rgba({colour},{0.75 * level / LEVELS:.3f})}}"
        for name, colour in (("n", _LESS), ("p", _MORE))
        for level in range(1, LEVELS + 1)
    )
    return (
        "<style>.tokens{white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.75}"
        ".tokens span{border-radius:.2rem;padding:.1rem 0;box-shadow:inset 0 -1px rgba(128,136,150,.35)}"
        ".tokens span:hover{outline:1px solid currentColor}"
        ".tokens .empty{opacity:.6;padding:.1rem .2rem}"
        ".token-key{display:flex;flex-wrap:wrap;gap:.3rem .6rem;align-items:center;opacity:.85}"
        ".token-key{font-size:.82rem}"
        ".token-key .tokens{line-height:1.2}.token-key .tokens span{padding:.1rem .45rem}"
        f"{shades}</style>"
    )


def show_key() -> None:
    parts = [f"n{level}" for level in range(LEVELS, 0, -1)] + [f"p{level}" for level in range(1, LEVELS + 1)]
    bar = "".join(f"<span class='{part}'></span>" for part in parts)
    key = (
        f"<div class='token-key'>less likely under the anchor than under its own prompt"
        f"<div class='tokens'>{bar}</div>more likely; full color at {FULL_AT:g} nats, hover for values</div>"
    )
    st.html(_style() + key)  # safe: constants


def show_tokens(response: str, ratios: TokenRatios, key: str, total: float | None) -> None:
    """Show a response with its tokens shaded; a long one is cut until "Show all" is pressed."""
    whole = len(response) <= CUT_AT or ask_for_all(response, key)
    st.html(tokens_html(response, ratios, MARKDOWN_MAX if whole else CUT_AT))  # safe: it escapes
    known = [ratio for ratio in ratios.log_ratios if ratio is not None]
    words = f"{len(ratios.log_ratios):,} tokens"
    if known:
        if total is not None:
            words += f"; log-ratio {signed(total)} nats in total"
        words += f", {signed(min(known))} to {signed(max(known))} per token"
    if len(known) < len(ratios.log_ratios):
        words += f"; {len(ratios.log_ratios) - len(known):,} without a finite log-ratio"
    layout.caption(words)


def tokens_html(response: str, ratios: TokenRatios, cut_at: int) -> str:
    """Return a response as HTML with a shaded span a token; texts are text in it, whatever they hold."""
    spans: list[str] = []
    written = 0
    pieces = visible_pieces(response, ratios.lengths)
    for piece, length, ratio in zip(pieces, ratios.lengths, ratios.log_ratios, strict=True):
        if written + length > cut_at:
            spans.append(f"… and {len(response) - written:,} more characters")
            break
        written += length
        text = html.escape(piece) if length else _NO_TEXT
        if ratio is None:
            spans.append(f"<span>{text}</span>")
            continue
        kinds = " ".join(kind for kind in (shade(ratio), "" if length else "empty") if kind)
        spans.append(f"<span class='{kinds}' title='{signed(ratio)}'>{text}</span>")
    return f"<div class='tokens'>{''.join(spans)}</div>"


def shade(ratio: float) -> str:
    """Return the class of a log-ratio: n or p with a level; "" where it rounds to no colour."""
    level = min(LEVELS, round(LEVELS * abs(ratio) / FULL_AT))
    return f"{'n' if ratio < 0 else 'p'}{level}" if level else ""


def signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "\u2212")
