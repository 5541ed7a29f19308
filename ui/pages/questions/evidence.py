"""Evidence for a neighbor's verdict: findings, numbers, responses, prompt and raw model answer."""

from typing import Any

import streamlit as st

from rephraser.candidates import PENDING
from rephraser.verdict.successes import read_successes
from rephraser.views.candidates import NeighborCard, page_answers, proposing_exchange
from service.questions.question import Question
from ui.pages.state import links
from ui.pages.state.database import fetch
from ui.pages.text.answers import answer_rows
from ui.pages.text.markup import escaped, show_math_text, show_text
from ui.pages.widgets import layout, tables

READ = ("read0", "read1")
"""Parameters of the address: the selected responses of the question and of the neighbor."""
OPENED = ("open", *READ)
MOST_RESPONSES = 200
_HEIGHT = 26  # rem, for 12 rows; the selected response is below them
_RESPONSES = (
    tables.Column("place", "response"),
    tables.Column("extracted", "answer", "code", wide=True),
    tables.Column("finish_reason", "stop reason"),
)


def provenance(card: NeighborCard) -> list[str]:
    chips = [layout.verdict_chip(card.status or PENDING), layout.chip(card.strategy)]
    if card.model != card.strategy:
        chips.append(layout.chip(card.model or card.proposer))
    return chips


def reasons(card: NeighborCard) -> None:
    findings = card.evidence.get("findings", [])
    fatal = "; ".join(finding["detail"] for finding in findings if finding["severity"] == "fatal")
    words = [] if card.verdict_reason == fatal else [card.verdict_reason]
    words.append(successes(card))
    if any(words):
        layout.caption(" · ".join(filter(None, words)))
    if card.reviewer and card.review_reason:
        layout.caption(f"{card.reviewer}: {card.review_reason}")
    lines = []
    for each in findings:
        colour: layout.Colour = "red" if each["severity"] == "fatal" else "orange"
        lines.append(
            f"{layout.chip(each['name'].replace('_', ' '), colour)} :gray[{escaped(each['detail'])}]"
        )
    if lines:
        st.markdown("\\\n".join(lines))  # safe: it escapes


def successes(card: NeighborCard) -> str:
    counts = read_successes(card.evidence.get("counts"), card.evidence.get("by_solver", ()))
    if counts is None:
        return ""
    return (
        f"correct answers: neighbor {counts.neighbor_right} of {counts.neighbor_drawn}, question "
        f"{counts.question_right} of {counts.question_drawn} ({counts.difficulty})"
    )


def parts(question: Question, card: NeighborCard) -> None:
    """Offer further details; only one part is open at a time, and only that one is loaded."""
    offered = {"numbers": "Numbers"}
    solvers = card.evidence.get("solvers", [])
    if solvers:
        offered["responses"] = "Responses"
    if card.ask_id is not None:
        offered["exchange"] = "Prompt and model answer"
    owner, _, part_open = links.text("open").rpartition(".")
    opened = part_open if owner == str(card.proposal_id) and part_open in offered else None
    key = f"parts-{card.proposal_id}"
    st.session_state[key] = opened

    def choose() -> None:
        part = st.session_state[key]
        links.set_query(**dict.fromkeys(READ), open=f"{card.proposal_id}.{part}" if part else None)

    look: dict[str, Any] = {"format_func": offered.__getitem__, "label_visibility": "collapsed"}
    st.pills("Details", list(offered), key=key, on_change=choose, **look)  # safe: constants
    if opened == "numbers":
        _numbers(card)
    elif opened == "responses" and solvers:
        solver = solvers[0]
        if others := solvers[1:]:
            layout.caption(f"Responses by {solver}; {len(others):,} other solvers also answered.")
        sides = (("Question", question.id, READ[0]), ("Neighbor", card.candidate_id, READ[1]))
        for label, subject, read in layout.in_columns(sides, gap="medium"):
            answers = fetch(page_answers, subject, solver, kind=question.kind, limit=MOST_RESPONSES + 1)
            _choose_response(label, answers, read, f"{subject}-{card.proposal_id}")
    elif opened == "exchange" and card.ask_id is not None:
        with layout.or_stop("The prompt cannot be shown."):
            exchange = fetch(proposing_exchange, card.ask_id)
        for place, message in enumerate(exchange["prompt"]):
            layout.caption(f"prompt, {message['role']}")
            show_text(message["content"], f"prompt-{card.proposal_id}-{place}")
        st.caption("raw model answer")
        if exchange["text"] is None:
            st.caption("none yet")
        else:
            show_text(exchange["text"], f"raw-{card.proposal_id}")


def _numbers(card: NeighborCard) -> None:
    compared = card.evidence
    tokens = "no request: the candidate comes from rules or a file"
    if card.ask_id is not None:
        tokens = (
            f"{card.prompt_tokens or 0:,} prompt, {card.completion_tokens or 0:,} generated, for all "
            "candidates of the request"
        )
    rows = [
        ("candidate", card.candidate_id),
        ("verdict of the run", card.verdict or "none yet"),
        ("final", "yes" if card.final else "not final: more answers may follow"),
        ("responses with a shared answer", compared.get("overlap")),
        ("responses with the most frequent answer to the question", compared.get("original_top")),
        ("responses with the most frequent new answer to the neighbor", compared.get("new_top")),
        ("solvers", ", ".join(compared.get("by_solver", ())) or "none"),
        ("difficulty", successes(card) or "unknown"),
        ("words that differ from the question", f"{1 - card.likeness:.0%}"),
        ("cost of the request", "unknown" if card.usd is None else f"{card.usd:.4f} USD"),
        ("tokens of the request", tokens),
    ]
    tables.page_table(
        [{"what": what, "value": "none" if value is None else str(value)} for what, value in rows],
        [tables.Column("what", "what"), tables.Column("value", "value")],
        f"numbers-{card.proposal_id}",
        name=f"{card.candidate_id}-numbers",
    )
    if answers := answer_rows(compared):
        key = f"answers-{card.proposal_id}"
        tables.download(f"{card.candidate_id}-answers", answers, key=key, label="Answers as CSV")


def _choose_response(label: str, answers: list[dict[str, Any]], parameter: str, key: str) -> None:
    headers = answers[:MOST_RESPONSES]
    words = f"{len(headers):,} responses" if headers else "no responses"
    if len(answers) > len(headers):
        words = f"the first {words}"
    st.caption(f"{escaped(label)}: {escaped(words)}")
    if not headers:
        return
    rows = [
        {**header, "place": place, "extracted": header["extracted"] or "no answer found"}
        for place, header in enumerate(headers, start=1)
    ]
    chosen = tables.pick_row(
        rows,
        _RESPONSES,
        f"responses-{key}",
        parameter=parameter,
        value="place",
        name=f"{key}-responses",
        words="Choose a response to read it.",
        height=_HEIGHT,
    )
    for row in rows:
        if str(row["place"]) == chosen:
            show_math_text(row["text"], f"response-{key}-{chosen}")
