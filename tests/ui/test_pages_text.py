"""Hostile text as Markdown: formulas are drawn, nothing else is anything but itself; differences of texts."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ui.pages
from ui.characters import visible
from ui.pages.text.differences import compare, mark_differences
from ui.pages.text.formulas import drawable, pieces
from ui.pages.text.markup import cut_text, escaped, safe_md, with_commands

JOINER = "\u2060"
SIGNS = r"$ $$ \ ` ``` \( \) \[ \] { } [ ] ( ) < > ! # - | ~~ ** _ \text{ \boxed{ \begin{align} \end{align}"
WORDS = " |\n|\n\n|    | and |5|x^2|:smile:|:red[x]|&amp;|![x](u)|<img src=x>|[asy]|[/asy]"
PARTS = st.sampled_from((*SIGNS.split(), *WORDS.split("|")))
TEXTS = st.lists(PARTS, max_size=25).map("".join) | st.text(max_size=60)


def bare(markdown: str) -> str:
    """Return what is left without code, formulas and escaped characters, as CommonMark reads it."""
    left: list[str] = []
    at = 0
    while at < len(markdown):
        char = markdown[at]
        if char == "\\" and at + 1 < len(markdown) and not markdown[at + 1].isalnum():
            at += 2
            continue
        if char in "`$":
            run = len(markdown[at:]) - len(markdown[at:].lstrip(char))
            close = re.search(rf"(?<!\{char})\{char}{{{run}}}(?!\{char})", markdown[at + run :])
            assert close, f"{markdown!r}: a fence is left open"
            at += run + close.end()
            continue
        left.append(char)
        at += 1
    return "".join(left)


@given(TEXTS)
@example("$\\text{![x](http://e/i.png)}$ $\\$ ![x](http://e/i.png)")
@example("\\`![x](u)`` `\\\\$$\\")
@example("$$\\$$$5$$")
def test_outside_of_formulas_and_code_no_markup_is_left(text):
    left = bare(safe_md(text))
    assert not set(left) & set("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"), left


@given(TEXTS)
def test_a_label_holds_no_markup_at_all_and_stays_on_its_line(text):
    label = escaped(text)
    assert "\n" not in label
    unescaped = re.sub(r"\\(.)", r"\1", label).replace(JOINER, "")
    plain = " ".join(visible(text).split()).replace("\\$", "$").replace("\\%", "%")
    assert unescaped == plain.replace(JOINER, "")
    assert not re.search(r"(?<!\\)(?:\\\\)*[!\[\]<>`$:*_~|#&]", label)


@given(TEXTS)
def test_pieces_join_to_the_text_again(text):
    assert "".join(piece.source for piece in pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$x^2$ is", "$$ x^2 $$ is"),
        ("\\(a\\)", "$$ a $$"),
        ("$\\text{if $x$ is}$", "$$ \\text{if $x$ is} $$"),
        ("$$a$$", "$$\na\n$$"),
        ("\\[a\n+b\\]", "$$\na +b\n$$"),
        ("$$\\text{$b$}$$", "$$\n\\text{$b$}\n$$"),
        ("\\boxed{\\frac{1}{2}}", "$$ \\boxed{\\frac{1}{2}} $$"),
        ("\\begin{aligned}a&=b\\end{aligned}", "$$\n\\begin{aligned}a&=b\\end{aligned}\n$$"),
        ("$\\begin{align*}a\\end{align*}$", "$$\n\\begin{align*}a\\end{align*}\n$$"),
        ("costs $5 and $6", "costs \\$5 and \\$6"),
        ("costs \\$5", "costs \\$5"),
        ("10\\% of $20$", "10\\% of $$ 20 $$"),
        ("$5 for $x$ pies", "\\$5 for $$ x $$ pies"),
        ("$12$ pies", "$$ 12 $$ pies"),
        ("from $5 to buy all 3$ cents", "from \\$5 to buy all 3\\$ cents"),
        ("$ x + y $", "$$ x + y $$"),
        ("a $ b", "a \\$ b"),
        ("$a\n\nb$", "\\$a\n\nb\\$"),
        ("a\nb", "a\\\nb"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("$x$\n$y$", "$$ x $$\\\n$$ y $$"),
        ("a\n  b", "a\\\n\u00a0\u00a0b"),
        ("[asy]draw(A--B);[/asy]", "```\n[asy]draw(A--B);[/asy]\n```"),
        ("\\begin{tabular}{c}1\\end{tabular}", "` \\begin{tabular}{c}1\\end{tabular} `"),
        ("$\\href{http://e}{x}$", "` $\\href{http://e}{x}$ `"),
        ("```python\nprint(1)\n```\nx", "```\nprint(1)\n```\n\n\nx"),
        ("1. x", "1\\. x"),
    ],
)
def test_formulas_and_text(text, expected):
    assert safe_md(text) == expected


def test_what_streamlit_replaces_behind_escapes_is_parted():
    assert safe_md(":smile: a:b") == f"\\:{JOINER}smile\\: a\\:b"
    assert safe_md("a -> b") == f"a \\-{JOINER}\\> b"
    assert safe_md("http://e") == f"http\\:{JOINER}\\/\\/e"
    assert safe_md("www.e.org") == f"www{JOINER}\\.e\\.org"
    assert safe_md("a@b.c") == f"a\\@{JOINER}b\\.c"


@pytest.mark.parametrize(
    ("formula", "fine"),
    [
        ("\\rule{1em}{2em}", True),
        ("\\rule{100000px}{1em}", False),
        ("x\\hspace{ 400 cm }", False),
        ("100\\text{ cm}", True),
        ("\\raisebox{900em}{x}", False),
        ("\\begin{array}{c@{}c}a&b\\end{array}", False),
        ("\\begin{array}{cc}a&b\\\\c&d\\end{array}", True),
        ("\\begin{pmatrix}1\\end{pmatrix}", True),
        ("\\includegraphics{a.png}", False),
        ("\\htmlClass{a}{b}", False),
        ("\\def\\x{\\x\\x}\\x", False),
        ("{" * 100 + "x" + "}" * 100, False),
        ("x" * 5000, False),
        ("   ", False),
        ("a\u0000b", False),
    ],
)
def test_formulas_that_are_drawn(formula, fine):
    assert drawable(formula) is fine


def test_hidden_characters_are_shown():
    assert visible("a\u202eb\u200bc\x00\x7f\ud800\u2028") == "a⟨U+202E⟩b⟨U+200B⟩c␀␡⟨U+D800⟩⟨U+2028⟩"
    assert visible("a\r\nb\rc\td") == "a\nb␍c\td"
    assert visible("é e\u0301 नमस्ते 日本 👩\u200d🚀") == "é e\u0301 नमस्ते 日本 👩\u200d🚀"
    assert visible("x" + "\u0301" * 7).count("⟨U+0301⟩") == 3
    assert visible("a\u200db") == "a⟨U+200D⟩b"


@pytest.mark.parametrize(
    "unit", ["$", "${", "\\(", "\\[", "\\begin{a}", "\\boxed{", "`", "```\n", "[asy]", "$$", "$a\n"]
)
def test_the_scan_takes_time_in_proportion_to_the_text(unit):
    def steps(count: int) -> int:
        from ui.pages.text import formulas

        scan = formulas._Scan(unit * count)
        before = scan.left
        assert "".join(piece.source for piece in scan.pieces()) == scan.text
        return before - scan.left

    assert steps(4000) <= 21 * 4000 * len(unit) + 1100 + 4 * 4000


LABELLED = (
    "button toggle checkbox radio selectbox multiselect text_input text_area number_input slider pills badge "
    "expander segmented_control popover download_button link_button page_link spinner status metric "
    "form_submit_button"
)
BODIES = "markdown write caption title header subheader html latex info warning success error toast dialog"
MARKDOWN = frozenset((*LABELLED.split(), *BODIES.split()))
"""Functions of Streamlit that read Markdown (or HTML) from their first argument, and all from `help`."""

BUTTONS = frozenset({"pills", "segmented_control", "radio"})
"""Functions that read Markdown from their options too, as `format_func` gives them."""

SAFE_CALLS = {"escaped", "safe_md", "marked", "chip", "escaped_lines", "len", "round", "int", "float"}


def is_safe(node: ast.expr) -> bool:
    """Say whether an argument holds no data that was not escaped."""
    match node:
        case ast.Constant():
            return True
        case ast.Call():
            return getattr(node.func, "id", getattr(node.func, "attr", "")) in SAFE_CALLS
        case ast.JoinedStr():
            return all(is_safe(part) for part in node.values)
        case ast.FormattedValue(value=value, format_spec=spec):
            # A format of numbers raises where it is given text.
            return is_safe(value) or (spec is not None and ast.unparse(spec)[-2:-1] in set(",dfge%"))
        case ast.BinOp(left=first, right=second) | ast.IfExp(body=first, orelse=second):
            return is_safe(first) and is_safe(second)
        case ast.BoolOp():
            return is_safe(node.values[-1])
    return False


def unsafe_calls(source: str) -> list[str]:
    lines = source.splitlines()
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = getattr(node.func.value, "id", "")
        if node.func.attr not in MARKDOWN or owner in ("layout", "links"):  # these escape what they are given
            continue
        named = [keyword.value for keyword in node.keywords if keyword.arg in ("help", "label", "body")]
        wild = any(keyword.arg is None for keyword in node.keywords) and not node.args
        excused = any("# safe" in line for line in lines[node.lineno - 1 : node.end_lineno])
        formats = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "format_func"]
        raw_options = node.func.attr in BUTTONS and formats != ["escaped"]
        if not excused and (wild or raw_options or not all(map(is_safe, [*node.args[:1], *named]))):
            found.append(f"{node.lineno}: {lines[node.lineno - 1].strip()}")
    return found


def test_no_page_hands_data_to_markdown_by_itself():
    """Escape it (`escaped`, `safe_md`), or say `# safe` on the line where it is not data."""
    paths = sorted(Path(ui.pages.__file__).parent.rglob("*.py"))
    assert len(paths) > 15
    sources = {path: path.read_text(encoding="utf-8") for path in paths}
    assert [path for path, source in sources.items() if "unsafe_allow" in source] == []
    assert [f"{path}:{call}" for path, source in sources.items() for call in unsafe_calls(source)] == []


def test_commands_in_notes_are_code_and_the_rest_is_text():
    shown = with_commands("k = 8, not 32: `tagrpo eval run ... --n` with *more*.")
    assert "` tagrpo eval run ... --n `" in shown
    assert r"\*more\*" in shown
    assert with_commands("one ` alone") == escaped("one ` alone")


@pytest.mark.parametrize(
    ("left", "right"), [("$", "$"), (r"\[ ", r" \]"), (r"\begin{align} ", r" \end{align}")]
)
def test_a_cut_goes_back_before_a_formula_however_long_it_is(left, right):
    text = f"Let $a$ satisfy {left}{'x + ' * 500}x = a{right} and find it."
    assert cut_text(text, 100) == "Let $a$ satisfy  …"
    assert cut_text("Find all of the numbers $a$ here.", 20) == "Find all of the …"


ORIGINAL = "Ada has $3$ apples and buys 4 more. How many apples does she have now?"


def changes(stretches):
    return [(stretch.change, "".join(word.text for word in stretch.words).strip()) for stretch in stretches]


def test_case_is_no_difference_words_and_formulas_are_and_a_sentence_may_move():
    difference = compare(ORIGINAL, ORIGINAL.replace("Ada", "ADA"))
    assert changes(difference.original) == [("kept", ORIGINAL)]
    assert {stretch.change for stretch in difference.neighbor} == {"kept"}
    difference = compare(ORIGINAL, ORIGINAL.replace("$3$", "$7$").replace("more.", "more pears."))
    differing = [[pair for pair in changes(side) if pair[0] != "kept"] for side in difference]
    assert differing[0] == [("dropped", "$3$"), ("dropped", "more.")]
    assert differing[1] == [("added", "$7$"), ("added", "more pears.")]
    moved = "How many apples does she have now, if Ada has $3$ apples and buys 4 more."
    for side in compare("If Ada has $3$ apples and buys 4 more. How many apples does she have", moved):
        assert ("moved", "How many apples does she have") in changes(side)


def test_marks_stand_around_escaped_words():
    difference = compare("A 5 b", "A [6] b")
    assert mark_differences(difference.original) == "A :red-background[~~**5**~~] b"
    assert mark_differences(difference.neighbor) == "A :green-background[**\\[6\\]**] b"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("$[0,1)$", ":green-background[$$ \\lbrack 0,1) $$]"),
        ("$[0,1]$", ":green-background[$$ [0,1] $$]"),
        ("$\\sqrt[3]{x}$", ":green-background[$$ \\sqrt[3]{x} $$]"),
        ("$\\sqrt[3]{[x}$", "$$ \\sqrt[3]{[x} $$"),
    ],
)
def test_a_mark_ends_where_it_should(formula, expected):
    assert mark_differences(compare("", formula).neighbor) == expected


def test_very_long_texts_are_compared_as_a_whole():
    long = "word " * 5000
    assert [stretch.change for stretch in compare(long, long).neighbor] == ["kept"]
    assert [stretch.change for stretch in compare(long, long + "x").neighbor] == ["added"]


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_word_is_lost(original, neighbor):
    difference = compare(original, neighbor)
    for text, stretches in ((original, difference.original), (neighbor, difference.neighbor)):
        assert "".join(word.text for stretch in stretches for word in stretch.words) == visible(text)
    kept = [
        [w.same_as for s in side if s.change == "kept" for w in s.words]
        for side in (difference.original, difference.neighbor)
    ]
    assert kept[0] == kept[1]
