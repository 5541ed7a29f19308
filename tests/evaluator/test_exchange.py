"""Responses of other tools as evaluations: matched, stored once, graded beside the tool's grades, written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eval_runs import add_eval_run, make_problems
from json_rows import write_rows
from outside_runs import bring, nothing, stored

from evaluator.evals.grading import grade_run
from evaluator.evals.overview import runs_overview, shown_grader
from evaluator.evals.problems import PlacedProblem, Problem, make_problem, number_copies
from evaluator.evals.results import load_result
from evaluator.evals.runs import EvalSpec
from evaluator.exchange import importing
from evaluator.exchange.agreement import read_agreement, unlike_grades
from evaluator.exchange.exporting import DATA_FILE, SamplesFormat, export_samples
from evaluator.exchange.files import open_responses, with_thoughts_opened
from evaluator.exchange.matching import By, FromFile, InBenchmark, survey
from evaluator.exchange.responses import read_score
from evaluator.grading import AnswerKind, Grader
from evaluator.reports.methods import load_methods
from service.database import Database
from service.errors import InputError
from service.models.settings import SamplingSettings

SUMS = [("What is 1/2 + 1/4?", "3/4"), ("2+2?", "4")]


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=1) as made:
        yield made


def sums(tmp_path: Path) -> Path:
    """Three responses to each of two questions: as the gold, equal to one gold, another number."""
    rows = [
        {"question": question, "answer": answer, "response": f"so \\boxed{{{text}}}"}
        | {"finish_reason": "max_tokens", "tokens": 5 + number, "correct": score, "predicted_answer": text}
        for number, (text_or_none, score) in enumerate([(None, True), ("0.75", False), ("7", 0.5)])
        for question, answer in SUMS
        for text in [text_or_none or answer]
    ]
    return write_rows(tmp_path / "sums.jsonl", *rows)


def test_responses_are_stored_once_and_graded_here_beside_the_other_grades(
    db: Database, grader: Grader, tmp_path: Path
) -> None:
    file = open_responses([sums(tmp_path)])
    run = bring(db, file).run
    rows = stored(db, run)
    assert [(row[0], row[6], row[7], row[9]) for row in rows] == [
        (problem, sample, "length", 5 + sample) for problem in (0, 1) for sample in range(3)
    ]
    with db.read() as session:
        assert shown_grader(session, run.id) is None  # the other tool's grades are never taken for ours
        with pytest.raises(InputError, match="6 of 6 samples have no grade"):
            load_result(session, run)
    grade_run(db, run.id, grader, nothing)
    with db.read() as session:
        result = load_result(session, run)
        assert list(result.counts.correct) == [2, 1]
        assert (result.usd, result.mean_tokens, result.truncated) == (None, 6.0, 6)
        agreement = read_agreement(session, run.id)
        assert agreement is not None
        assert agreement.counts == {
            ("correct", "correct"): 2,
            ("wrong", "correct"): 1,
            ("wrong", "wrong"): 1,
            ("unknown", "wrong"): 2,
        }
        assert (agreement.samples, agreement.alike) == (6, 3)
        unlike = unlike_grades(session, run, agreement)
        fields = ("position", "ordinal", "theirs_reason", "theirs_extracted")
        assert [tuple(row[name] for name in fields) for row in unlike] == [
            (0, 1, "False", "0.75"),
            (0, 2, "0.5", "7"),
            (1, 2, "0.5", "7"),
        ]
    again = bring(db, file)
    assert (again.run.id, again.new, again.there) == (run.id, 0, 6)
    assert stored(db, run) == rows
    with pytest.raises(InputError, match=r"exists with other settings: .*sha256"):
        bring(
            db, open_responses([write_rows(tmp_path / "other.jsonl", {**vars_of(SUMS[0]), "response": "x"})])
        )


def test_what_a_file_does_not_tell_of_ends_is_not_said(db: Database, grader: Grader, tmp_path: Path) -> None:
    """None cut of three is another thing than nobody knows; one response that tells is enough to count."""
    rows = [{"question": "What is 5 + 2?", "answer": "7", "response": f"{n}"} for n in (7, 8, 9)]
    cut = {**rows[2], "finish_reason": "length"}
    truncated = {}
    for name, part in {"silent": rows, "telling": [*rows[:2], cut]}.items():
        run = bring(db, open_responses([write_rows(tmp_path / f"{name}.jsonl", *part)]), name).run
        grade_run(db, run.id, grader, nothing)
        with db.read() as session:
            result = load_result(session, run)
            [overview] = runs_overview(session, [run])
            [method] = load_methods(session, [run.name])
        [entry] = method.entries.values()
        truncated[name] = (result.truncated, entry.truncated, overview.to_json()["truncated"])
    assert truncated == {"silent": (None, None, None), "telling": (1, pytest.approx(1 / 3), 1)}


def test_thoughts_that_the_prompts_opened_are_known_as_such(grader: Grader, tmp_path: Path) -> None:
    """A guess inside a thought that was cut off is an answer only as long as nobody says that it is one."""
    texts = [
        "5 + 2 is 7</think> The answer is 7.",
        "So the answer is 7. But wait",
        "<think>7</think> It is 7.",
    ]
    rows = [{"question": "What is 5 + 2?", "answer": "7", "response": text} for text in texts]
    plain = open_responses([write_rows(tmp_path / "thoughts.jsonl", *rows)])
    read = survey(plain.read(), FromFile("thoughts"))
    assert (read.closed, read.tagless) == (1, 1)
    opened = with_thoughts_opened(plain)
    read = survey(opened.read(), FromFile("thoughts"))
    assert (read.closed, read.tagless) == (0, 0)
    assert opened.settings["thoughts"] == "started in the prompt"
    correct = []
    for file in (plain, opened):
        graded = grader.grade_many([(response.text or "", "7") for response in file.read()])
        correct.append([grade.value.value == "correct" for grade in graded])
    assert correct == [[True, True, True], [True, False, True]]


def vars_of(pair: tuple[str, str]) -> dict[str, str]:
    return {"question": pair[0], "answer": pair[1]}


def test_a_stopped_import_goes_on_and_two_at_once_store_each_response_once(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "RESPONSES_PER_COMMIT", 2)
    file = open_responses([sums(tmp_path)])
    whole = bring(db, file, "whole").run

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise Stop

    with pytest.raises(Stop):
        bring(db, file, "stopped", report=stop)
    assert bring(db, file, "stopped").there == 4

    calls = 0

    def another_one_meanwhile(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            bring(db, file, "twice")

    bring(db, file, "twice", report=another_one_meanwhile)
    with db.read() as session:
        from service.runs.store import find_run

        stopped, twice = find_run(session, "stopped"), find_run(session, "twice")
    assert stopped.finished_at
    assert twice.finished_at
    assert stored(db, stopped) == stored(db, whole) == stored(db, twice)


def test_requests_without_a_response_are_unknown_and_not_wrong(
    db: Database, grader: Grader, tmp_path: Path
) -> None:
    rows = [{**vars_of(SUMS[1]), "response": text} for text in ("\\boxed{4}", None, "\\boxed{5}", None)]
    file = open_responses([write_rows(tmp_path / "lost.jsonl", *rows)])
    for _ in range(2):
        run = bring(db, file).run
    grade_run(db, run.id, grader, nothing)
    with db.read() as session:
        result = load_result(session, run)
    assert (result.missing, list(result.counts.n), list(result.counts.unknown)) == (2, [4], [2])


BENCHMARK = [make_problem("What is 1 + 1?", "2"), make_problem("What is\n1 + 1? Say it twice.", "22")]


@pytest.mark.parametrize(
    ("by", "row", "place"),
    [
        ("text", {"question": " What is   1 + 1?\n"}, 0),
        ("text", {"question": "Solve: What is 1 + 1?"}, None),
        ("text", {"id": BENCHMARK[1].id}, 1),
        ("inside", {"question": "Solve: What is 1 + 1?"}, 0),
        ("inside", {"question": "Solve: What is 1 + 1? Say it twice."}, 1),  # holds both; the longer one
        ("inside", {"question": "Solve: 1 + 1?"}, None),
        ("position", {"id": 1}, 1),
        ("position", {"id": 2}, None),
        ("position", {"id": "1e3"}, None),
    ],
)
def test_questions_are_found_in_a_benchmark(
    by: By, row: dict[str, Any], place: int | None, tmp_path: Path
) -> None:
    rows = [{"response": "", **row}, {"response": "", "question": BENCHMARK[0].text, "id": "0"}]
    file = open_responses([write_rows(tmp_path / "r.jsonl", *rows)])
    read = survey(file.read(), InBenchmark("b", BENCHMARK, by))
    if place is None:
        assert (dict(read.samples), read.unmatched.total()) == ({0: 1}, 1)
    else:
        assert read.numbers == sorted({0, place})
        assert not read.unmatched
    with pytest.raises(InputError, match="none of its 1 responses belongs to a problem"):
        survey(
            open_responses([write_rows(tmp_path / "no.jsonl", {"response": "", "question": "?"})]).read(),
            InBenchmark("b", BENCHMARK, by),
        )


@pytest.mark.parametrize(("by", "around"), [("text", ""), ("inside", "Think. ")])
def test_copies_of_a_problem_take_its_responses_in_turn(
    by: By, around: str, db: Database, tmp_path: Path
) -> None:
    held = number_copies(
        [make_problem("1 + 1?", "2"), make_problem("1 + 2?", "3"), make_problem("1 + 1?", "2")]
    )
    rows = [{"response": text, "question": f"{around}1 + 1?"} for text in "abcde"]
    file = open_responses([write_rows(tmp_path / "r.jsonl", *rows)])
    texts = [row[-1] for row in stored(db, bring(db, file, matcher=InBenchmark("b", held, by)).run)]
    assert texts == ["a", "c", "e", "b", "d"]
    again = bring(db, file, matcher=InBenchmark("b", held, by))
    assert (again.new, again.there) == (0, 5)


@pytest.mark.parametrize("by", ["text", "inside"])
def test_a_question_with_two_golds_is_unclear_and_not_absent(by: By, tmp_path: Path) -> None:
    held = [make_problem("1 + 1?", "2"), make_problem("1 + 2?", "3"), make_problem("1  +  1?", "10")]
    rows = [{"response": "", "question": text} for text in ("1 + 1?", "1 + 2?", "1 + 3?")]
    read = survey(
        open_responses([write_rows(tmp_path / "r.jsonl", *rows)]).read(), InBenchmark("b", held, by)
    )
    assert (read.unclear, read.unmatched, read.left_out) == ({"1 + 1?": 1}, {"1 + 3?": 1}, 2)
    alone = open_responses([write_rows(tmp_path / "alone.jsonl", rows[0])])
    with pytest.raises(InputError, match="occurs several times in the benchmark with different answers"):
        survey(alone.read(), InBenchmark("b", held, by))


def test_dots_lead_into_a_list_of_objects(tmp_path: Path) -> None:
    draws = [{"message": {"content": text}, "tokens": number} for number, text in enumerate("ab")]
    path = write_rows(tmp_path / "r.jsonl", {"choices": draws, "problem": "1 + 1?", "answer": "2"})
    columns = {"response": "choices.message.content", "completion_tokens": "choices.tokens"}
    responses = list(open_responses([path], columns=columns).read())
    assert [(each.text, each.completion_tokens) for each in responses] == [("a", 0), ("b", 1)]
    absent = open_responses([path], columns={"response": "choices.message.text"})
    with pytest.raises(InputError, match="no row contains a response"):
        survey(absent.read(), FromFile("own"))


@pytest.mark.parametrize(
    ("lines", "columns", "message"),
    [
        (
            '{"a": 1}',
            {},
            r"no column looks like the response\. Pass it with --column response=NAME; available: a",
        ),
        ('{"text": "x"}', {}, r"no column looks like the question or its id"),
        (
            '{"text": "x", "q": 1}',
            {"question": "z"},
            r'no column "z" \(--column question=\.\.\.\)\. Available: q',
        ),
        ('{"text": "x", "q": 1}', {"wish": "q"}, r"--column wish=q: unknown part\. Available: response"),
        ('{"text": "x", "id": 1}', {}, r"r\.jsonl:1: it has no question\. Name the benchmark"),
        ('{"text": "x", "problem": "q"}', {}, r"r\.jsonl:1: it has no gold answer\. Name the column"),
        (
            '{"text": "x", "problem": "q", "answer": "1"}\n{"problem": "q"}',
            {},
            r'r.jsonl:2: it has no "text"',
        ),
        ('{"text": [{}], "problem": "q", "answer": "1"}', {}, r'r\.jsonl:1: "text" is not text'),
        (
            '{"text": [{"draw": 1, "said": "2"}], "problem": "q", "answer": "1"}',
            {},
            r'"text" contains draw, said instead of text\. .* as in --column response=text\.draw',
        ),
        (
            '{"text": "", "problem": "q", "answer": "1", "tokens": -1}',
            {},
            r'1 of 1 rows cannot be used:\n  r\.jsonl:1: "tokens" is -1, which is not',
        ),
        (
            '{"text": "", "problem": "q", "answer": "1", "kind": "x"}',
            {},
            r"1 of 1 rows cannot be used:\n  r\.jsonl:1: .kind. is 'x'\. Kinds: latex",
        ),
        ('{"text": "", "problem": "q", "answer": "1"}\n{"text', {}, r"r.jsonl:2: not valid JSON .* cut off"),
        ('{"text": null, "problem": "q", "answer": "1"}', {}, r"no row contains a response"),
        ("", {}, r"the file is empty"),
        ("\n \n", {}, r"r\.jsonl: contains no rows"),
        ('{"text"\n1', {}, r"r.jsonl: 2 of 2 rows cannot be used:\n  r.jsonl:1: not valid JSON"),
        ('{"text"\n' * 300, {}, r"the first 200 rows cannot be used:(\n  r.jsonl:\d: .*){5}\n  and 195 more"),
        ("[{}]", {}, r"1 of 1 rows cannot be used:\n  r.jsonl: row 0: it has no columns"),
    ],
)
def test_what_cannot_be_imported_says_where_and_what_would_fit(
    lines: str, columns: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        survey(open_responses([path], columns=columns).read(), FromFile("own"))


def test_a_score_that_is_neither_is_unknown() -> None:
    scores = ["C", "I", "P", "N", True, False, 1, 0.0, "0.5", float("nan"), "correct", "wrong"]
    values = [score.value.value[0] for each in scores if (score := read_score(each)) is not None]
    assert "".join(values) == "cwuucwcwuucw"
    assert read_score(None) is None


@pytest.mark.parametrize("form", ["jsonl", "parquet", "hf"])
def test_what_is_exported_comes_back_whole(form: SamplesFormat, db: Database, tmp_path: Path) -> None:
    plain = [*make_problems(1), make_problem("How much?", "3.00", AnswerKind.TOLERANCE, "1e-1")]
    problems: list[Problem] = number_copies([*plain, plain[0]])
    said = iter(["", "\u2028 \\boxed{1}\r\n", " a ", "\x00", "π", "z"])
    run = add_eval_run(db, "r", [(2, 1, 0)] * 3, problems=problems, texts=lambda *_: next(said))
    target = tmp_path / "out"
    assert export_samples(db, run, target, form, overwrite=False, report=nothing) == 6
    path = target / DATA_FILE if form == "hf" else target.rename(target.with_suffix(f".{form}"))
    back = bring(db, open_responses([path]), "back").run
    assert stored(db, back) == stored(db, run)
    assert back.spec["problems_hash"] == run.spec["problems_hash"]
    file = open_responses([path])
    assert [each.score is not None and each.score.value.value for each in file.read()] == [
        *("correct", "wrong") * 3
    ]
    if form == "hf":
        with pytest.raises(InputError, match=r"is not empty. Choose another folder or pass --overwrite"):
            export_samples(db, run, target, form, overwrite=False, report=nothing)
        assert "1e-1" in {each.tolerance for each in file.read()}


def test_a_run_over_a_neighbor_set_comes_back_with_its_groups(db: Database, tmp_path: Path) -> None:
    question, again = make_problems(2)
    placed = [
        PlacedProblem(question, "q_1", 0, "q_1"),
        PlacedProblem(again, "q_1", 1, "c_1", "rules"),
        PlacedProblem(question, "q_2", 0, "q_2"),  # two questions of the same text
    ]
    run = add_eval_run(db, "r", [(2, 1, 0)] * 3, problems=placed)
    export_samples(db, run, tmp_path / "o.jsonl", "jsonl", overwrite=False, report=nothing)
    assert stored(db, bring(db, open_responses([tmp_path / "o.jsonl"]), "back").run) == stored(db, run)


def test_texts_of_gated_benchmarks_are_not_exported(db: Database, tmp_path: Path) -> None:
    problems = make_problems(1)
    run = add_eval_run(db, "r", [(1, 1, 0)], problems=problems, benchmark="gpqa-diamond")
    with pytest.raises(InputError, match="gated benchmark, whose texts may not be exported"):
        export_samples(db, run, tmp_path / "o.jsonl", "jsonl", overwrite=False, report=nothing)
    assert not (tmp_path / "o.jsonl").exists()


def test_settings_of_another_tool_are_not_told_as_ours(db: Database, tmp_path: Path) -> None:
    spec = EvalSpec.from_json(bring(db, open_responses([sums(tmp_path)])).run.spec)
    assert spec.engine["sampler"] == "imported"
    assert spec.engine["scorer"] == "correct"
    assert spec.sampling == SamplingSettings(seed=None)
