"""A question with its neighbors side by side: differences, the verdict and its evidence."""

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.candidates import PENDING, STATUSES, find_candidate
from rephraser.questions.store import find_question, places
from rephraser.sets.store import find_set, member_ids
from rephraser.views.candidates import CandidateFilters, NeighborCard, page_candidates, read_cards
from rephraser.views.questions import find_suspects
from service.questions.question import Question
from ui.pages.questions import evidence
from ui.pages.questions.filters import choices, run_ids, show_active, warn_absent
from ui.pages.state import links
from ui.pages.state.database import cached, fetch
from ui.pages.text.answers import show_answers
from ui.pages.text.differences import LEGEND, show_side_by_side
from ui.pages.text.markup import escaped, show_math_text
from ui.pages.training_signal.runs import runs_with
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.choices import choose
from ui.pages.widgets.pager import pager
from ui.pages.widgets.pictures import show_pictures

SetPlace = tuple[str, int, str | None]
"""A set of the question, its row there, and why it is held back."""

NEIGHBORS = 5
NARROWING = ("run", "neighbors")
"""Filters of the list that also apply to a question's neighbors."""

OWN = ("id", "candidate", "show", "nafter", "open", *evidence.READ)
"""Parameters of this view, removed when returning to the list."""


@cached
def _read(session: Session, reference: str, candidate: str) -> tuple[Question, list[SetPlace]]:
    if candidate:
        reference = find_candidate(session, candidate).question_id
    question = find_question(session, reference)
    return question, places(session, question.id)


@cached
def _cards_of(session: Session, candidate: str) -> list[NeighborCard]:
    return read_cards(session, find_candidate(session, candidate).id)


@cached
def _members(session: Session, neighbor_set: str, question_id: str) -> frozenset[str]:
    return member_ids(session, find_set(session, neighbor_set).id, question_id)


def show(reference: str, candidate: str) -> None:
    st.button(
        "All questions",
        icon=":material/arrow_back:",
        type="tertiary",
        on_click=lambda: links.set_query(**dict.fromkeys(OWN)),
    )
    with layout.or_stop("This question does not exist."):
        question, stands = _read(reference, candidate)
    _question(question, stands)
    _all_neighbors(question, candidate, stands)


def _question(question: Question, stands: list[SetPlace]) -> None:
    with layout.card("question"):
        show_math_text(question.text, f"q-{question.id}")
        show_pictures(question.images)
        st.markdown(f"**Answer** {escaped(question.answer)}")  # safe
        with layout.row():
            chips = [layout.chip(label) for label in (question.subject, question.level) if label]
            for set_name, position, held in stands:
                why = f", held back: {held}" if held else ""
                chips.append(layout.chip(f"{set_name} row {position}{why}", "orange" if held else "gray"))
            if chips:
                layout.line(*chips)
            for suspect in fetch(find_suspects, question_id=question.id):
                words = (
                    "Suspect gold answer: in run {run}, {question_agreeing} of {question_drawn} answers to "
                    "the question and {neighbor_agreeing} of {neighbor_drawn} to its accepted neighbors "
                    "({neighbors}) are {agreed}; {gold_given} answers to the question equal the gold answer."
                )
                layout.note(words.format(**suspect))
            layout.caption(question.id)
            if runs_with(question.id):
                links.link("Rollouts", "rollouts", q=question.id)


def _all_neighbors(question: Question, candidate: str, stands: list[SetPlace]) -> None:
    run, neighbor_set = links.text("run"), links.text("neighbors")
    known = choices()["neighbors"]
    members = _members(neighbor_set, question.id) if neighbor_set in known else frozenset()
    show_active(NARROWING, ("nafter", *evidence.OPENED))
    warn_absent(NARROWING)
    statuses = ["all", *STATUSES, PENDING]
    usual = links.choice("verdict", statuses, "all") if not candidate else "all"
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        status = choose(
            st.segmented_control, "Verdict", "show", statuses, usual, resets=["nafter", *evidence.OPENED]
        )
        st.markdown(LEGEND)  # safe: a constant
    after = links.number("nafter", 0, low=1)
    wanted = CandidateFilters(
        run_id=run_ids().get(run), question_id=question.id, status=None if status == "all" else status
    )
    with layout.or_stop("These neighbors cannot be shown."):
        cards = fetch(page_candidates, wanted, after=after or None, limit=NEIGHBORS + 1)
    if candidate and status == "all" and not after:
        own = _cards_of(candidate)
        first = {card.proposal_id for card in own}
        cards = [*own, *(card for card in cards if card.proposal_id not in first)]
    for card in cards[:NEIGHBORS]:
        _neighbor(question, card, neighbor_set if card.candidate_id in members else "")
    if not cards and status != "all":
        layout.empty_state(f"No neighbor of this question is {status}.")
    elif not cards and run:
        layout.empty_state("No neighbor of this run.")
    elif not cards:
        no_neighbors("This question has no neighbors yet.", stands[0][0] if stands else "")
    following = cards[NEIGHBORS - 1].proposal_id if len(cards) > NEIGHBORS else None
    pager("nafter", following, resets=evidence.OPENED)


def _neighbor(question: Question, card: NeighborCard, member_of: str) -> None:
    key = f"n-{card.proposal_id}"
    with layout.card(key):
        chips = [*evidence.provenance(card), layout.chip(f"run {card.run}")]
        if member_of:
            chips.append(layout.chip(f"in {member_of}", "blue", ":material/inventory_2:"))
        if card.reviewer:
            chips.append(layout.chip(f"reviewed by {card.reviewer}", "blue", ":material/person:"))
        layout.line(*chips)
        show_side_by_side(question.text, card.text, key)
        evidence.reasons(card)
        show_answers(card.evidence)
        evidence.parts(question, card)
