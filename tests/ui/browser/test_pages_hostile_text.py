"""Hostile text in a real browser: nothing is fetched, nothing runs, nothing becomes a link or an image."""

import json
import random

from page_view import SUPPORT, FetchCounter, script_server, served

from service.database import Database


def hostile(url: str) -> list[str]:
    """Return texts that ask a browser for `url` in every way we know."""
    known = [
        f"![x]({url}/md-image.png)",
        f"[![x]({url}/nested.png)]({url}/link)",
        f"![x][ref]\n\n[ref]: {url}/reference.png",
        f"<img src={url}/html.png onerror=alert(1)>",
        f"<script src={url}/script.js></script><script>fetch('{url}/inline')</script>",
        f"<iframe src='{url}/frame'></iframe><svg onload=fetch('{url}/svg')>",
        f"<style>@import url({url}/style.css); body {{ background: url({url}/bg.png) }}</style>",
        f"<link rel=stylesheet href={url}/link.css><meta http-equiv=refresh content='0;url={url}/meta'>",
        f"$\\includegraphics{{{url}/tex.png}}$ $\\href{{{url}/tex-link}}{{x}}$ \\(\\url{{{url}}}\\)",
        f"$\\htmlStyle{{background:url({url}/html-style.png)}}{{x}}$",
        f"$x$![x]({url}/behind-formula.png)$y$",
        f"$$x![x]({url}/inside-formula.png)$$ $a$]({url})",
        f"```\n![x]({url}/code.png)\n```\n![x]({url}/after-code.png)",
        f"`![x]({url}/ticks.png)` \\`![x]({url}/escaped-ticks.png)\\`",
        f"\\![x]({url}/escaped.png) \\\\![x]({url}/twice.png) \\\\\\![x]({url}/thrice.png)",
        f"$\\text{{![x]({url}/in-text.png)}}$ $\\$ ![x]({url}/odd-dollar.png)",
        f":red[![x]({url}/directive.png)] :material/home: :streamlit: :smile: :red-background[x]",
        f"[x](javascript:fetch('{url}/js')) <javascript:fetch('{url}/auto')> {url}/autolink www.example.org",
        f"| a | b |\n|---|---|\n| ![x]({url}/table.png) | <img src={url}/cell.png> |",
        f"> ![x]({url}/quote.png)\n\n- ![x]({url}/list.png)\n1. ![x]({url}/number.png)",
        f"    ![x]({url}/indented.png)\n\t![x]({url}/tab.png)\n[^1]: ![x]({url}/footnote.png)",
        f"\u202e![x]({url}/bidi.png)\u2066 \x00![x]({url}/nul.png) \ud800 e" + "\u0301" * 9,
        f"# ![x]({url}/heading.png)\n===\n![x]({url}/setext.png)\n---\n",
        f"[asy]\nimport '{url}/asy';\n[/asy]![x]({url}/after-asy.png)",
        f"\\begin{{tabular}}{{c}}![x]({url}/tabular.png)\\end{{tabular}}",
        f"$\\rule{{100000px}}{{100000px}}$ $\\raisebox{{900em}}{{![x]({url}/raised.png)}}$",
        f"&#33;[x]({url}/entity.png) &lt;img src={url}/entity-html.png&gt;",
        f"=HYPERLINK(\"{url}/sheet\") +cmd|' /C calc'!A0",
        f"<!--\n![x]({url}/comment.png)\n--> <![CDATA[ ![x]({url}/cdata.png) ]]>",
        f'![x](<{url}/angle.png> "title") ![x](\n{url}/newline.png) ![x\n]({url}/newline2.png)',
        f"~~~\n![x]({url}/tilde.png)\n~~~\n~~![x]({url}/strike.png)~~ **![x]({url}/bold.png)**",
    ]
    rng = random.Random(7)
    tex = r"$ $$ \ ` ``` \( \) \[ \] { } [ ] ( ) < > ! \text{ \boxed{ \begin{align} \end{align} [asy] [/asy]"
    marks = f"![x]({url}/fuzz.png) <img/src={url}/fuzz-html.png> :red[ x 5 | ~~ ** & #"
    parts = [*tex.split(), *marks.split(), " ", "\n", "\n\n", "- "]
    return known + ["".join(rng.choices(parts, k=rng.randint(5, 40))) for _ in range(90)]


def test_hostile_texts_fetch_nothing_and_become_nothing(view_of, tmp_path):
    texts, database = tmp_path / "texts.json", tmp_path / "t.db"
    Database.open(database).close()
    with FetchCounter() as counter:
        shown = hostile(counter.url)
        texts.write_text(json.dumps(shown), encoding="utf-8")
        command = script_server(SUPPORT / "pages_gallery.py", database)
        with served(command, GALLERY_TEXTS=str(texts)) as url:
            view = view_of(url).open("/?q=%3Cimg%20src%3Dx%3E")
            dialogs: list[str] = []
            view.tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
            cells = view.tab.locator(".table tbody tr td:first-child")
            cells.first.wait_for()
            main = view.tab.locator('[data-testid="stMain"]')
            assert main.locator("img, iframe, script, object, embed, video, audio, base").count() == 0
            links = main.locator("a").evaluate_all("all => all.map(a => a.href)")
            assert not [link for link in links if not link.startswith(url)]
            assert main.locator(".katex").count() > 5  # formulas among them are drawn all the same
            assert f"![x]({counter.url}/md-image.png)" in main.inner_text().replace("\u2060", "")
            assert cells.first.inner_text() == f"![x]({counter.url}/md-image.png)"
            assert cells.locator("*").evaluate_all("all => [...new Set(all.map(e=>e.tagName))]") == ["BUTTON"]
            widest = main.evaluate("all => Math.max(...[...all.querySelectorAll('*')].map(e=>e.scrollWidth))")
            assert widest < 20_000
            view.check()
        assert counter.fetched == []
        assert dialogs == []


def test_the_counter_counts_so_that_zero_means_something(view_of):
    with FetchCounter() as counter:
        tab = view_of("http://127.0.0.1").tab
        tab.set_content(f"<img src='{counter.url}/seen.png'>")
        tab.wait_for_load_state("networkidle")
        assert counter.fetched == ["/seen.png"]


def test_the_policy_stops_images_that_escaping_would_have_missed(view_of, tmp_path):
    script, database = tmp_path / "careless.py", tmp_path / "t.db"
    Database.open(database).close()
    with FetchCounter() as counter:
        careless = f"![x]({counter.url}/leak.png)\n\n<img src='{counter.url}/leak2.png'>"
        script.write_text(
            f"import streamlit as st\nst.title('x')\nst.markdown({careless!r}, unsafe_allow_html=True)\n"
        )
        with served(script_server(script, database)) as url:
            view = view_of(url).open("/")
            for place in range(2):
                view.tab.locator('[data-testid="stMain"] img').nth(place).wait_for(state="attached")
            view.tab.wait_for_load_state("networkidle")
            refused = [problem for problem in view.problems if "Content Security Policy" in problem]
            assert [name for name in ("leak.png", "leak2.png") if name not in str(refused)] == []
        assert counter.fetched == []
