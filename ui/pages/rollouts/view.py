"""The page "Rollouts"."""

import streamlit as st

from ui.pages.rollouts import group, overview, search
from ui.pages.state import links, settings
from ui.pages.state.database import show_page
from ui.pages.state.records import list_trainings, method_of, open_run
from ui.pages.training_signal.runs import runs_with
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, note_absent, search_field


def body() -> None:
    runs = {each.run.name: each for each in list_trainings() if each.numbers.rollouts or each.problem}
    if not runs:
        layout.empty_state(
            "No rollouts are recorded yet.",
            "`tagrpo train run` records rollouts. To add the folder of another training run:",
            commands=(settings.command("train rollouts FOLDER --add"),),
        )
        return
    question = links.text("q")
    # A link from a question names no run: the newest one that has the question is meant.
    drew = runs_with(question) if question else []
    having = [name for name in runs if name in drew]

    def label(name: str) -> str:
        each = runs[name]
        return name if each.problem else f"{name}  ({method_of(each)}, {each.numbers.rollouts:,} responses)"

    with layout.row("bottom"):
        name = choose(
            st.selectbox,
            "Training run",
            "run",
            list(runs),
            (having or list(runs))[-1],
            words=label,
            resets=["step", "q", "at", "to", "after", "before", "from", "following"],
        )
        text = "" if question else search_field("text of a response", "text", search.PLACES, width=300)
    note_absent("run", list(runs), "training run with rollouts", name)
    run_id = runs[name].run.id
    if problem := runs[name].problem:
        layout.error_box("The rollouts of this run cannot be read.", problem)
        return
    if problems := open_run(run_id).problems():
        layout.error_box("Some files cannot be read. The page shows the rest.", "\n".join(problems))
    steps = overview.run_steps(run_id)
    if question:
        group.show(run_id, name, question, overview.address_filters(steps), having)
    elif text:
        search.show(run_id, text, [step.step for step in steps])
    else:
        overview.show(run_id, name, steps)


show_page("Rollouts", "Responses that training sampled, by question and step.", body)
