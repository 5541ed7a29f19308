"""Responses of other tools as evaluations: matched, stored once, graded beside the tool's grades, written."""

from pathlib import Path
from typing import Any

import pytest
from eval_runs import add_eval_run, make_problems
from json_rows import write_rows
from outside_runs import bring, nothing, stored

from evaluator.evals.problems import make_problem
from evaluator.exchange import importing
from evaluator.exchange.exporting import export_samples
from evaluator.exchange.files import open_responses
from evaluator.exchange.matching import By, FromFile, InBenchmark, survey
from service.database import Database
from service.errors import InputError

SUMS = [("What is 1/2 + 1/4?", "3/4"), ("2+2?", "4")]


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


def test_a_stopped_import_goes_on_and_two_at_once_store_each_response_once(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "RESPONSES_PER_COMMIT", 2)
    file = open_responses([sums(tmp_path)])
    whole = bring(db, file, "whole")[0]

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise Stop

    with pytest.raises(Stop):
        bring(db, file, "stopped", report=stop)
    assert bring(db, file, "stopped")[2] == 4

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


BENCHMARK = [make_problem("What is 1 + 1?", "2"), make_problem("What is\n1 + 1? Say it twice.", "22")]


@pytest.mark.parametrize(
    ("by", "row", "place"),
    [
        ("text", {"question": " What is   1 + 1?\n"}, 0),
        ("text", {"question": "Solve: What is 1 + 1?"}, None),
        ("text", {"id": BENCHMARK[1].id}, 1),
        ("inside", {"question": "Solve: What is 1 + 1?"}, 0),
        ("inside", {"question": "Solve: What is 1 + 1? Say it twice."}, 1),  # holds both; the longer one
        ("position", {"id": 1}, 1),
        ("position", {"id": 2}, None),
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
        assert list(read.problems) == sorted({0, place})
        assert not read.unmatched
    with pytest.raises(InputError, match="none of its 1 responses matches a problem"):
        survey(
            open_responses([write_rows(tmp_path / "no.jsonl", {"response": "", "question": "?"})]).read(),
            InBenchmark("b", BENCHMARK, by),
        )


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
        ('{"text": "x", "problem": "q"}', {}, r"r\.jsonl:1: it has no gold answer\. Pass its column"),
        (
            '{"text": "x", "problem": "q", "answer": "1"}\n{"problem": "q"}',
            {},
            r'r.jsonl:2: it has no "text"',
        ),
        ('{"text": [{}], "problem": "q", "answer": "1"}', {}, r'r\.jsonl:1: "text" is not text'),
        ('{"text": "", "problem": "q", "answer": "1"}\n{"text', {}, r"r.jsonl:2: not valid JSON .* cut off"),
        ('{"text": null, "problem": "q", "answer": "1"}', {}, r"no row contains a response"),
        ("", {}, r"the file is empty"),
        ('{"text"\n' * 300, {}, r"300 of 300 rows cannot be used:(\n  r.jsonl:\d: .*){5}\n  and 295 more"),
    ],
)
def test_what_cannot_be_imported_says_where_and_what_would_fit(
    lines: str, columns: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        survey(open_responses([path], columns=columns).read(), FromFile("own"))


def test_texts_of_gated_benchmarks_are_not_exported(db: Database, tmp_path: Path) -> None:
    problems = make_problems(1)
    run = add_eval_run(db, "r", [(1, 1, 0)], problems=problems, benchmark="gpqa-diamond")
    with pytest.raises(InputError, match="gated benchmark, whose texts may not be exported"):
        export_samples(db, run, tmp_path / "o.jsonl", "jsonl", overwrite=False, report=nothing)
    assert not (tmp_path / "o.jsonl").exists()
