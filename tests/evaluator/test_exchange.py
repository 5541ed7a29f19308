"""Responses of other tools as evaluations: read, matched, stored once, graded, written."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow
import pytest
from eval_runs import add_eval_run, make_problems
from json_rows import write_rows
from pictures import picture
from pyarrow import parquet
from runs import open_empty
from sqlalchemy import select

from evaluator.evals.problems import make_problem, number_copies
from evaluator.evals.tables import ProblemRow, RunProblemRow, SampleRow, SampleTextRow
from evaluator.exchange import importing
from evaluator.exchange.exporting import export_samples
from evaluator.exchange.files import ResponseFile, open_responses
from evaluator.exchange.importing import FromFile, InBenchmark, Matcher, import_responses, survey
from evaluator.grading import AnswerKind
from service.database import Database
from service.errors import InputError
from service.questions.images import RowImages, data_address, load_images, read_image, store_images
from service.runs.store import Run, find_run
from service.telling import TellProgress


def bring(
    db: Database,
    file: ResponseFile,
    name: str = "run",
    matcher: Matcher | None = None,
    report: TellProgress = lambda *_: None,
) -> tuple[Run, int, int]:
    """Import a file as the command does, by default its own questions; return run, new and old samples."""
    matcher = matcher or FromFile("own")
    read = survey(file.read(), matcher)
    spec = {"problems": "own", "size": len(read.problems), "source": {}, "model": "m"}
    return import_responses(db, name, file, matcher, read, report, **spec)


def stored(db: Database, run: Run) -> list[tuple[Any, ...]]:
    """All that an export has to bring back, in order."""
    query = (
        select(
            RunProblemRow.position,
            RunProblemRow.group_id,
            RunProblemRow.variant,
            RunProblemRow.source_id,
            RunProblemRow.strategy,
            ProblemRow.id,
            SampleRow.ordinal,
            SampleRow.stop_reason,
            SampleRow.prompt_tokens,
            SampleRow.completion_tokens,
            SampleRow.seed,
            SampleTextRow.text,
        )
        .join(ProblemRow, ProblemRow.id == RunProblemRow.problem_id)
        .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
        .join(SampleTextRow, SampleTextRow.sample_id == SampleRow.id)
        .where(RunProblemRow.run_id == run.id)
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )
    with db.read() as session:
        return [tuple(row) for row in session.execute(query)]


def lighteval_row(texts: list[str], metric: dict[str, float], marks: str = "") -> dict[str, Any]:
    """A row as lighteval 0.13.0 writes it, without the columns that are not read."""
    doc = {"query": "Solve. 2+2?", "choices": ["5", "4"], "gold_index": [1], "id": "7", "instruction": None}
    told = {"text": texts, "output_tokens": [[1, 2]] * len(texts), "reasonings": ["hm", None][: len(texts)]}
    return {f"{marks}doc{marks}": doc, f"{marks}model_response{marks}": told, f"{marks}metric{marks}": metric}


def test_files_of_other_tools_are_known_by_their_columns(tmp_path):
    details = tmp_path / "details.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([lighteval_row(["4"], {"match": 1.0})]), details)
    file = open_responses([details])
    (response,) = file.read()
    assert (file.form, file.scorer, response.text) == ("lighteval", "match", "<think>\nhm\n</think>\n\n4")
    assert (response.question, response.answer, response.id) == ("Solve. 2+2?", "4", "7")
    assert response.completion_tokens == 2
    assert response.score.value == "correct"
    parquet.write_table(pyarrow.Table.from_pylist([lighteval_row(["4", ""], {"pass": 0.5}, "__")]), details)
    assert [(each.text, each.score) for each in open_responses([details]).read()] == [
        ("<think>\nhm\n</think>\n\n4", None),  # a score of both is none of each
        ("", None),
    ]
    row = {"problem": "2+2?", "expected_answer": "4", "generation": "4", "symbolic_correct": False}
    row |= {"num_generated_tokens": 3, "judgement": "yes"}
    outputs = [write_rows(tmp_path / f"output-rs{seed}.jsonl", row) for seed in (0, 1)]
    file = open_responses(outputs, columns={"score": "judgement"})
    first, second = file.read()
    assert (file.form, first.text, first.completion_tokens) == ("rows", "4", 3)
    assert second.score.value == "correct"
    assert open_responses(outputs).scorer == "symbolic_correct"
    assert open_responses(outputs[:1]).sha256 != file.sha256
    with pytest.raises(InputError, match="a file is given twice"):
        open_responses([outputs[0], outputs[0]])
    with pytest.raises(InputError, match=r"the format is rows, but in .* it is lighteval"):
        open_responses([details, *outputs])
    table = tmp_path / "rows.csv"
    table.write_text('prompt,target,completion\n"2+2?",4,"a, b"\n', encoding="utf-8")
    (response,) = open_responses([table]).read()
    assert (response.question, response.answer, response.text) == ("2+2?", "4", "a, b")


def test_rows_of_a_verl_rollout_and_of_chat_prompts_are_read(tmp_path):
    rows: list[dict[str, Any]] = [{"input": "user\n2+2?", "output": "4", "gts": "4", "score": 1.0, "step": 3}]
    (response,) = open_responses([write_rows(tmp_path / "3.jsonl", *rows)]).read()
    assert (response.question, response.text, response.answer) == ("user\n2+2?", "4", "4")
    rows = [{"question": "2+2?", "code": ["4"], "gt": "4", "pred": ["4"], "text": "Read.", "generated": "5"}]
    (response,) = open_responses([write_rows(tmp_path / "harness.jsonl", *rows)]).read()
    assert (response.text, response.answer) == ("5", "4")
    del rows[0]["generated"], rows[0]["text"]
    (response,) = open_responses([write_rows(tmp_path / "harness.jsonl", *rows)]).read()
    assert response.text == "4"
    rows = [{"prompt": [{"role": "user", "content": "2+2?"}], "Response": "4", "about": {"gold": ["4"]}}]
    file = open_responses([write_rows(tmp_path / "chats.jsonl", *rows)], columns={"answer": "about.gold"})
    (response,) = file.read()
    assert (response.question, response.text, response.answer) == ("2+2?", "4", "4")


def lm_eval_rows(*filters: str) -> list[dict[str, Any]]:
    """Rows as lm-evaluation-harness 0.4.13 writes them with --log_samples, of two problems."""
    drawn = {"until": ["</s>"], "do_sample": True, "temperature": 0.7, "max_gen_toks": 40}
    return [
        {
            "doc_id": number,
            "doc": {"question": f"{number}+2?", "answer": f"#### {number + 2}"},
            "target": f"It is\n#### {number + 2}",
            "arguments": {"gen_args_0": {"arg_0": f"1+1?\n2\n\n{number}+2?", "arg_1": drawn}},
            "resps": [[f"It is {number + 2}."]],
            "filtered_resps": ["[invalid]" if name == "strict" else str(number + 2)],
            "filter": name,
            "metrics": ["exact_match"],
            "exact_match": float(name == "flexible"),
        }
        for name in filters
        for number in range(2)
    ]


def test_samples_of_lm_eval_are_read_once_with_the_metric_of_a_filter(tmp_path):
    path = tmp_path / "samples_sums_2026-11-26T13-25-50.262854.jsonl"
    write_rows(path, *lm_eval_rows("strict", "flexible"))
    file = open_responses([path])
    assert (file.form, file.scorer, file.poses) == ("lm-eval", "exact_match,strict", "sums")
    rows = [(each.id, each.question, each.text) for each in file.read()]
    assert rows == [("0", "0+2?", "It is 2."), ("1", "1+2?", "It is 3.")]
    assert [each.score.value for each in file.read() if each.score] == ["wrong", "wrong"]
    flexible = open_responses([path], columns={"score": "exact_match,flexible"})
    scores = [(e.score.value, e.score.extracted) for e in flexible.read() if e.score]
    assert scores == [("correct", "2"), ("correct", "3")]
    with pytest.raises(InputError, match=r"METRIC,FILTER. Metrics: exact_match. Filters: strict, flexible"):
        open_responses([path], columns={"score": "exact_match,loose"})


def test_an_unfinished_log_gives_what_is_there_and_a_broken_sample_its_number(tmp_path):
    about = {"eval": {"model": "m", "task": "sums", "run_id": "r"}, "plan": {"config": {"top_p": 0.9}}}
    content = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "attachment://a"}]
    sample = {"id": 1, "epoch": 1, "input": [{"role": "user", "content": "2+2?"}], "target": ["4", "four"]}
    sample |= {"output": {"choices": [{"message": {"content": content}}]}, "attachments": {"a": "\\boxed{4}"}}
    path = tmp_path / "x.eval"
    with ZipFile(path, "w", ZIP_DEFLATED) as log:
        log.writestr("_journal/start.json", json.dumps(about))
        log.writestr("samples/1_epoch_1.json", json.dumps(sample))
    (response,) = open_responses([path]).read()
    assert (response.question, response.answer, response.score) == ("2+2?", "4", None)
    assert response.text == "<think>\nhm\n</think>\n\n\\boxed{4}"
    with ZipFile(path, "a", ZIP_DEFLATED) as log:
        log.writestr("samples/1_epoch_2.json", "{}")
    with pytest.raises(InputError, match=r"sample 2 cannot be read \(KeyError: 'input'\)"):
        list(open_responses([path]).read())


RED, BLUE = read_image(picture("red")), read_image(picture("blue", kind="JPEG"))
BOTH = [make_problem("<image>Find x.", "2", images=[image.id]) for image in (RED, BLUE)]


@pytest.fixture
def other_db(tmp_path):
    with open_empty(tmp_path / "other.db") as database:
        yield database


def asked(**others: Any) -> dict[str, Any]:
    return {"question": "Find x.", "answer": "2", "response": "\\boxed{2}", **others}


def from_file(folder: Path) -> FromFile:
    return FromFile("own", AnswerKind.LATEX, RowImages(folder))


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_exported_comes_back_in_another_database(form, db, other_db, tmp_path):
    with db.write() as session:
        store_images(session, [RED, BLUE])
    plain = [*BOTH, make_problem("How much?", "3.00", AnswerKind.TOLERANCE, "1e-1")]
    said = iter(["", "\u2028 \\boxed{1}\r\n", " a ", "\x00", "π", "z", "\\boxed{2}", "2"])
    problems = number_copies([*plain, plain[0]])
    run = add_eval_run(db, "r", [(2, 1, 0)] * 4, problems=problems, texts=lambda *_: next(said))
    path = tmp_path / f"out.{form}"
    assert export_samples(db, run, path, form, overwrite=False, report=lambda *_: None) == 8
    back = bring(other_db, open_responses([path]), matcher=from_file(tmp_path))[0]
    assert stored(other_db, back) == stored(db, run)
    assert back.spec["problems_hash"] == run.spec["problems_hash"]
    with other_db.read() as session:
        assert load_images(session, [RED.id, BLUE.id])
    scores = [each.score and each.score.value.value for each in open_responses([path]).read()]
    assert scores == [*("correct", "wrong") * 4]
    if form == "parquet":
        from datasets import load_dataset

        read = load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
        sizes = [[image.size for image in row["images"]] for row in read]
        assert sizes[::2] == [[(8, 6)], [(8, 6)], [], [(8, 6)]]


def test_the_same_words_below_another_picture_are_another_problem(tmp_path, db):
    red, blue = data_address(RED), data_address(BLUE)
    both = asked(image=red, response=["\\boxed{2}", "\\boxed{3}"])
    rows = [both, asked(image=blue), asked(image=[red]), asked()]
    path = write_rows(tmp_path / "r.jsonl", *rows)
    matcher = from_file(tmp_path)
    run = bring(db, open_responses([path]), matcher=matcher)[0]
    assert [place.problem.images for place in matcher.placed] == [(RED.id,), (BLUE.id,), ()]
    assert [row[0] for row in stored(db, run)] == [0, 0, 0, 1, 2]


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


def test_a_stopped_import_goes_on_and_two_at_once_store_each_response_once(db, tmp_path, monkeypatch):
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
def test_questions_are_found_in_a_benchmark(by, row, place, tmp_path):
    rows = [{"response": "", **row}, {"response": "", "question": BENCHMARK[0].text, "id": "0"}]
    file = open_responses([write_rows(tmp_path / "r.jsonl", *rows)])
    read = survey(file.read(), InBenchmark("b", BENCHMARK, by))
    if place is None:
        assert (dict(read.samples), read.unmatched.total()) == ({0: 1}, 1)
    else:
        assert list(read.problems) == sorted({0, place})
        assert not read.unmatched
    other = write_rows(tmp_path / "no.jsonl", {"response": "", "question": "?"})
    with pytest.raises(InputError, match="none of its 1 responses matches a problem"):
        survey(open_responses([other]).read(), InBenchmark("b", BENCHMARK, by))


@pytest.mark.parametrize(
    ("lines", "columns", "message"),
    [
        (
            '{"a": 1}',
            {},
            r"no column looks like the response\. Pass it with --column response=NAME; available: a",
        ),
        ('{"text": "x"}', {}, r"no column looks like the question or id"),
        (
            '{"text": "x", "q": 1}',
            {"question": "z"},
            r'no column "z" \(--column question=NAME\); available: q',
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
        (
            '{"text"\n' * 300,
            {},
            r"none of the first 200 rows can be used:(\n  .*r.jsonl:\d: .*){5}\n  and 195 more",
        ),
    ],
)
def test_what_cannot_be_imported_says_where_and_what_would_fit(lines, columns, message, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        survey(open_responses([path], columns=columns).read(), FromFile("own"))


def test_texts_of_gated_benchmarks_are_not_exported(db, tmp_path):
    problems = make_problems(1)
    run = add_eval_run(db, "r", [(1, 1, 0)], problems=problems, benchmark="gpqa-diamond")
    with pytest.raises(InputError, match="gated benchmark, whose texts may not be exported"):
        export_samples(db, run, tmp_path / "o.jsonl", "jsonl", overwrite=False, report=lambda *_: None)
    assert not (tmp_path / "o.jsonl").exists()
