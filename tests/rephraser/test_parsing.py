"""Reading candidates out of real-looking answers of language models."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephraser.proposing.parsing import ParseResult, double_latex_backslashes, parse_candidates
from service.asks.request import Choice

QUESTION = r"If $x + 2 = 5$, what is the value of $\frac{x}{3}$?"
ONE = r"Find the value of $\frac{x}{3}$ when $x + 2 = 5$."
TWO = r"Given that $x + 2 = 5$, determine $\frac{x}{3}$."


def tagged(text: str) -> str:
    return f"<rephrasing>{text}</rephrasing>"


def parse(text: str, count: int = 1, *, truncated: bool = False) -> tuple[tuple[str, ...], ParseResult]:
    return parse_candidates(Choice(text, "length" if truncated else "stop"), question=QUESTION, count=count)


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        f"```\n{ONE}\n```",
        f"```text\n{ONE}\n```",
        f'"{ONE}"',
        f"<rephrasing>\n{ONE}\n</rephrasing>",
        f"<rephrasing>{ONE}",
        f"<think>\nThe user wants {QUESTION}\n</think>\n\n{ONE}",
        f"Perhaps <rephrasing>{TWO}</rephrasing>, no.\n</think>\n\n<rephrasing>{ONE}</rephrasing>",
        f"Perhaps {TWO}, no.\n</Thinking>\n{ONE}",
        f"[THINK]Perhaps <rephrasing>{TWO}</rephrasing>[/THINK]<rephrasing>{ONE}</rephrasing>",
        json.dumps({"rephrasings": [ONE]}),
        json.dumps([ONE]),
        json.dumps({"rephrased_question": ONE}),
        json.dumps({"rephrasings": [{"text": ONE}]}),
        "Here you go:\n```json\n" + json.dumps({"rephrasings": [ONE]}, indent=2) + "\n```\nHope this helps!",
        '{"rephrasings": ["' + ONE + '"]}',  # LaTeX with single backslashes
        f"{ONE}\n",
    ],
)
def test_one_candidate_however_it_is_wrapped(text):
    assert parse(text) == ((ONE,), ParseResult.OK)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"rephrasings": [ONE, TWO]}),
        f"<rephrasing>{ONE}</rephrasing>\n<rephrasing>{TWO}</rephrasing>",
        # The echo and the repetition do not count.
        json.dumps({"rephrasings": [QUESTION, ONE, ONE + " ", TWO]}),
        f'<rephrasing id="1">{ONE}</rephrasing>\n\n<rephrasing id="2">{TWO}</rephrasing>',
        f"<rephrasing1>{ONE}</rephrasing1>\n\n<rephrasing_2>{TWO}</rephrasing_2>",
        f"<rewrite>{ONE}</rewrite><rewrite>{TWO}</rewrite>",
        f"< rephrased >{ONE}</ rephrased >[rephrasing]{TWO}[/rephrasing]",
        f"&lt;rephrasing&gt;{ONE}&lt;/rephrasing&gt;<rephrasing>{TWO}<\\rephrasing>",
        f"<rephrasing>{ONE}<rephrasing>\n<rephrasing>{TWO}<rephrasing>",
        f"<rephrasing>{ONE}\n<rephrasing>{TWO}</rephrasing>",
        f"<rephrasings><rephrasing><rephrasing>{ONE}</rephrasing></rephrasing>\n{tagged(TWO)}</rephrasings>",
        f"Between <rephrasing> and </rephrasing>: {tagged(ONE)}{tagged(TWO)}",
    ],
)
def test_several_candidates_in_any_markup(text):
    assert parse(text, 2) == ((ONE, TWO), ParseResult.OK)


@pytest.mark.parametrize("mark", ["**", "### "])
@pytest.mark.parametrize("wrapped", [True, False])
def test_headings_of_options_are_a_problems_own(mark, wrapped):
    end = mark.strip("# ")
    offers = [f"{mark}Option {number}{end}\nPay $x + {number}$." for number in (1, 2)]
    text = "\n\n".join([*offers, "For which $x$ are both the same?"])
    assert parse(tagged(text) if wrapped else text) == ((text,), ParseResult.OK)


@pytest.mark.parametrize("text", ["<rephrasing>" * 4000, "Rephrasing" + " " * 16000 + "x", "<think>" * 4000])
def test_odd_answers_take_no_long_time(text):
    started = time.process_time()
    parse(text, 3, truncated=True)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", ParseResult.EMPTY),
        (" \n ", ParseResult.EMPTY),
        ("<think>so</think>\n", ParseResult.EMPTY),
        ("so\n</think>\n", ParseResult.EMPTY),
        (f"[THINK]<rephrasing>{ONE}</rephrasing>", ParseResult.TRUNCATED),
        ("I'm sorry, but I can't help with that.", ParseResult.REFUSED),
        ("I cannot rephrase this question.", ParseResult.REFUSED),
        ("I won't be able to fulfil that.", ParseResult.REFUSED),
        ("I can't offer five versions of it.", ParseResult.REFUSED),
        ("I cannot discuss that topic.", ParseResult.REFUSED),
        ("I am not able to rephrase these 2 questions.", ParseResult.REFUSED),
        ("Unfortunately, I am not able to see the image.", ParseResult.REFUSED),
        ("As an AI language model, I must not.", ParseResult.REFUSED),
        (QUESTION, ParseResult.ECHOED),
        (QUESTION.replace(" ", "  ") + "\n", ParseResult.ECHOED),
        (f"Write one rewrite of the problem below.\n\n<problem>\n{QUESTION}\n</problem>", ParseResult.ECHOED),
        ("Bestimme den Wert von $x$, wenn die Summe von $x$ und $2$ den Wert $5$ hat.", ParseResult.LANGUAGE),
        ("已知 $x + 2 = 5$, 求 $x$ 的值。", ParseResult.LANGUAGE),
        ("{}", ParseResult.MALFORMED),
        (f"Sure! Here is the rephrased question:\n\n{ONE}", ParseResult.MALFORMED),
        (f"Rephrasing: {ONE}", ParseResult.MALFORMED),
        ('{"rephrasings": []}', ParseResult.MALFORMED),
    ],
)
def test_unusable_answers_are_named(text, outcome):
    assert parse(text) == ((), outcome)


@pytest.mark.parametrize(
    "text",
    [
        "I can't find $2$ of my $x$ pens, and hold $5$.",
        "I cannot carry $5$ bags.",
        "I did not request $2$ pens in each of the boxes.",
    ],
)
def test_a_problem_in_the_first_person_is_no_refusal(text):
    asked = f"{text} What is a third of $x$?"
    assert parse(tagged(asked)) == ((asked,), ParseResult.OK)


@pytest.mark.parametrize(
    "text",
    [
        '{"rephrasings": [' + json.dumps(ONE) + ', "Given that $x + 2 =',
        f"<rephrasing>{ONE}</rephrasing>\n<rephrasing>Given that",
        f"<rephrasing>{ONE}<rephrasing>Given that",
    ],
)
def test_truncated_answers_keep_what_is_whole(text):
    assert parse(text, 2, truncated=True) == ((ONE,), ParseResult.TRUNCATED)


@pytest.mark.parametrize("first", ["Below is a fact of $x$: $x + 2 = 5$.", "Here are the facts:"])
@pytest.mark.parametrize("wrap", ["<rephrasing>{}</rephrasing>", '["{}"]', "{}"])
def test_a_candidate_keeps_its_first_line(first, wrap):
    candidate = f"{first}\nWhat is a third of $x$, if $x + 2 = 5$?"
    assert parse(wrap.replace("{}", candidate)) == ((candidate,), ParseResult.OK)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'"$\frac12$ \times \beta \nu \rho \theta"', r"$\frac12$ \times \beta \nu \rho \theta"),
        (r'"first\nSecond \\frac{1}{2}"', "first\nSecond \\frac{1}{2}"),
        (r'"a\tb \u00e9 \"x\" \{1\} \, \% \$5"', 'a\tb é "x" \\{1\\} \\, \\% \\$5'),
        (r'"\underline{x} \upsilon"', r"\underline{x} \upsilon"),
        (r'"If $\nu \ne 2$:\ni. find \(\nu\)\nIt is"', "If $\\nu \\ne 2$:\ni. find \\(\\nu\\)\nIt is"),
        (r'"If $3 \nmid n$, $\neg p$"', "If $3 \\nmid n$, $\\neg p$"),
        (r'"$$\\begin{cases}\nu = 1\ne = 2$$"', "$$\\begin{cases}\nu = 1\ne = 2$$"),
    ],
)
def test_latex_survives_json(written, read):
    assert json.loads(double_latex_backslashes(written), strict=False) == read


@given(st.text(max_size=300), st.integers(1, 4), st.booleans())
def test_no_text_breaks_the_parser(text, count, truncated):
    candidates, outcome = parse(text, count, truncated=truncated)
    assert len(candidates) <= count
    assert (outcome is ParseResult.OK) == (len(candidates) == count)
    assert all(candidate.strip() for candidate in candidates)
