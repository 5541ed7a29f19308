"""Interactive reviewing: one candidate after the other, each decision stored before the next is shown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import typer

from ui.cli import exits, output
from ui.cli.output import Terminal

if TYPE_CHECKING:
    from rephraser.reviews.queue import ReviewItem
    from rephraser.reviews.status import CandidateStatus
    from service.database import Database
    from service.questions.images import ImageHeader

CHOICES = "[a]ccept, [r]eject, [s]kip, [q]uit: "


class _Stop(Exception):
    """The reviewer quits, or the input ends."""


def review_interactively(
    database: "Database",
    reviewer: str,
    *,
    run: str | None,
    audit_id: int | None,
    status: str,
    blind: bool,
    terminal: Terminal,
) -> None:
    """Ask for decisions on an audit's candidates, blind, or on those of a run with this status.

    Ends with the last candidate, at "q", at the end of the input and at Ctrl-C; what was decided until then
    is stored. With JSON texts and questions go to stderr and stdout gets the counts only.
    """
    from rephraser.reviews.audit import get_audit
    from rephraser.reviews.queue import audit_queue, open_queue, read_item
    from rephraser.reviews.status import read_status
    from rephraser.reviews.store import Decision, record_reviews
    from rephraser.run.start import choose_run
    from service.questions.images import load_headers

    with database.read() as session:
        if audit_id is not None:
            audit = get_audit(session, audit_id)
            queue, chosen = audit_queue(session, audit, reviewer), None
            together = ", grouped by question" if audit.kind == "groups" else ""
            what = f"audit {audit.id} of run {audit.run_name}{together}"
            kind = " --groups" if audit.kind == "groups" else ""
            report = f"tagrpo rephrase audit {audit.run_name}{kind} --sample {audit.size} --seed {audit.seed}"
        else:
            chosen = choose_run(session, run)
            queue = open_queue(session, chosen.id, reviewer, statuses=[status])
            what = f"{status} candidates of run {chosen.name}"
            report = ""
    speak = _Speaker(terminal.as_json)
    speak.say(f"{what}: {len(queue):,} to review as {reviewer}")
    counts = {"accepted": 0, "rejected": 0, "skipped": 0}
    interrupted = False
    try:
        for number, candidate_id in enumerate(queue, start=1):
            with database.read() as session:
                item = read_item(session, candidate_id)
                images = load_headers(session, item.images)
                standing = None
                if chosen is not None and not blind:
                    standing = read_status(session, chosen.id, candidate_id)
            _show(speak, f"{number} of {len(queue)}", item, [images[id] for id in item.images], standing)
            choice = _ask_decision(speak)
            if choice is None:
                counts["skipped"] += 1
                continue
            word, reason = choice
            with database.write() as session:
                record_reviews(session, [Decision(candidate_id, word, reason, reviewer, audit_id)])
            counts[word] += 1
    except _Stop:
        speak.say()
    except KeyboardInterrupt:
        interrupted = True
        speak.say()
    left = len(queue) - counts["accepted"] - counts["rejected"]
    if terminal.as_json:
        output.print_json({**counts, "left": left})
    speak.say(
        f"{counts['accepted']:,} accepted, {counts['rejected']:,} rejected, {counts['skipped']:,} skipped, "
        f"{left:,} left to review"
    )
    if report and not left:
        speak.say(f"result of the audit: {report}")
    if interrupted:
        raise typer.Exit(exits.Code.INTERRUPTED)


class _Speaker:
    """Prints to stdout, or to stderr where stdout is for JSON."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def say(self, text: str = "") -> None:
        (output.note if self._as_json else output.say)(text)

    def ask(self, prompt: str) -> str:
        """Return a line of the input, without blanks around.

        Raises:
            _Stop: the input has ended.
        """
        typer.echo(prompt, nl=False, err=self._as_json)
        try:
            return input().strip()
        except EOFError as error:
            raise _Stop from error


def _show(
    speak: _Speaker,
    place: str,
    item: "ReviewItem",
    images: "Sequence[ImageHeader]",
    standing: "CandidateStatus | None",
) -> None:
    from service.questions.images import name_images

    speak.say()
    speak.say(f"=== {place}: {item.candidate_id} ===")
    speak.say(f"--- original, gold answer {item.answer or '-'} ---")
    speak.say(name_images(item.question, images))
    speak.say("--- candidate ---")
    speak.say(name_images(item.candidate, images))
    if standing is not None:
        speak.say(f"--- {standing.status or 'pending'}; {standing.model}, strategy {standing.strategy} ---")
        if standing.reason:
            speak.say(standing.reason)


def _ask_decision(speak: _Speaker) -> tuple[Literal["accepted", "rejected"], str] | None:
    """Return the decision and its reason, or None for a skipped candidate."""
    while True:
        choice = speak.ask(CHOICES).lower()
        if choice in {"a", "accept"}:
            return "accepted", speak.ask("reason (optional): ")
        if choice in {"r", "reject"}:
            reason = speak.ask("reason (empty to choose again): ")
            if reason:
                return "rejected", reason
            speak.say("a rejection needs a reason")
        elif choice in {"s", "skip"}:
            return None
        elif choice in {"q", "quit"}:
            raise _Stop
