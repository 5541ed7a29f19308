"""Files of other tools: known by their columns, read as responses, logs of inspect_ai without inspect_ai."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow
import pytest
from json_rows import write_rows
from pyarrow import parquet

from evaluator.exchange.files import open_responses
from evaluator.exchange.matching import FromFile, survey
from service.errors import InputError


def lighteval_row(texts: list[str], metric: dict[str, float], marks: str = "") -> dict[str, Any]:
    """A row as lighteval 0.13.0 writes it, without the columns that are not read."""
    doc = {"query": "Solve. 2+2?", "choices": ["5", "4"], "gold_index": [1], "id": "7", "instruction": None}
    told = {"text": texts, "output_tokens": [[1, 2]] * len(texts), "reasonings": ["hm", None][: len(texts)]}
    return {f"{marks}doc{marks}": doc, f"{marks}model_response{marks}": told, f"{marks}metric{marks}": metric}


def test_files_of_other_tools_are_known_by_their_columns(tmp_path: Path) -> None:
    details = tmp_path / "details.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([lighteval_row(["4"], {"match": 1.0})]), details)
    file = open_responses([details])
    (response,) = file.read()
    assert (file.form, file.scorer, response.text) == ("lighteval", "match", "<think>\nhm\n</think>\n\n4")
    assert (response.question, response.answer, response.id) == ("Solve. 2+2?", "4", "7")
    assert response.completion_tokens == 2
    assert response.score is not None
    assert response.score.value == "correct"
    parquet.write_table(pyarrow.Table.from_pylist([lighteval_row(["4", ""], {"pass": 0.5}, "__")]), details)
    assert [(each.text, each.score) for each in open_responses([details]).read()] == [
        ("<think>\nhm\n</think>\n\n4", None),  # a score of both is none of each
        ("", None),
    ]
    row = {"problem": "2+2?", "expected_answer": "4", "generation": "4", "symbolic_correct": False}
    row |= {"num_generated_tokens": 3, "judgement": "yes"}
    outputs = [write_rows(tmp_path / f"output-rs{seed}.jsonl", row) for seed in (0, 1)]
    file = open_responses(outputs, scorer="judgement")
    first, second = file.read()
    assert (file.form, first.text, first.completion_tokens) == ("rows", "4", 3)
    assert second.score is not None
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


def test_a_gold_of_its_own_name_comes_before_answer_which_may_be_the_models(tmp_path: Path) -> None:
    row = {"prompt": "2+2?", "response": "It is 5.", "answer": "5"}
    for name in ("expected", "ground_truth", "gold"):
        (response,) = open_responses([write_rows(tmp_path / "rows.jsonl", row | {name: "4"})]).read()
        assert response.answer == "4"
    (response,) = open_responses([write_rows(tmp_path / "rows.jsonl", row)]).read()
    assert response.answer == "5"


def test_columns_that_an_export_has_are_read_as_such_in_an_export_alone(tmp_path: Path) -> None:
    """A column `group` of a training or `variant` of a prompt made problems of one another's neighbors."""
    rows = [
        {"question": f"{n}+1?", "answer": str(n + 1), "response": "2", "group": "sums", "variant": "short"}
        for n in range(2)
    ]
    matcher = FromFile("own")
    read = survey(open_responses([write_rows(tmp_path / "rows.jsonl", *rows)]).read(), matcher)
    assert [(place.group_id, place.variant) for place in matcher.placed()] == [(None, 0), (None, 0)]
    assert read.samples.total() == 2
    exported = [{**row, "variant": 0, "copy": 0} for row in rows]
    with pytest.raises(
        InputError, match=r"rows.jsonl:2: its group 'sums' already has a different problem as variant 0"
    ):
        survey(open_responses([write_rows(tmp_path / "rows.jsonl", *exported)]).read(), FromFile("own"))


def test_an_empty_cell_of_csv_tells_nothing(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    head = "question,answer,response,stop_reason,tokens,seed,kind,tolerance,score\n"
    table.write_text(f"{head}2+2?,4,4,,,,,,\n2+2?,4,5,stop,7,1,integer,,0\n", encoding="utf-8")
    first, second = open_responses([table]).read()
    assert (first.stop_reason, first.completion_tokens, first.seed, first.kind) == (
        "unknown",
        None,
        None,
        None,
    )
    assert (first.tolerance, first.score) == (None, None)
    assert (second.completion_tokens, second.seed, second.kind) == (7, 1, "integer")


def test_rows_of_a_verl_rollout_and_of_chat_prompts_are_read(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"input": "user\n2+2?", "output": "4", "gts": "4", "score": 1.0, "step": 3}]
    (response,) = open_responses([write_rows(tmp_path / "3.jsonl", *rows)]).read()
    assert (response.question, response.text, response.answer) == ("user\n2+2?", "4", "4")
    rows = [
        {"question": "2+2?", "code": ["4"], "gt": "4", "pred": ["4"], "text": "A passage.", "generated": "5"}
    ]
    (response,) = open_responses([write_rows(tmp_path / "harness.jsonl", *rows)]).read()
    assert (response.text, response.answer) == ("5", "4")
    del rows[0]["generated"], rows[0]["text"]
    (response,) = open_responses([write_rows(tmp_path / "harness.jsonl", *rows)]).read()
    assert response.text == "4"
    rows = [{"prompt": [{"role": "user", "content": "2+2?"}], "Response": "4", "about": {"gold": ["4"]}}]
    file = open_responses([write_rows(tmp_path / "chats.jsonl", *rows)], columns={"answer": "about.gold"})
    (response,) = file.read()
    assert (response.question, response.text, response.answer) == ("2+2?", "4", "4")


def test_of_several_responses_lists_are_of_each_and_one_score_is_of_none(tmp_path: Path) -> None:
    row = {"question": "2+2?", "answer": ["4", "four"], "response": ["4", "5"], "score": [1, 0]}
    one, other = open_responses([write_rows(tmp_path / "rows.jsonl", row)]).read()
    assert (one.answer, other.answer) == ("4, four", "4, four")
    assert one.score is not None
    assert other.score is not None
    assert (one.score.value, other.score.value) == ("correct", "wrong")
    both = open_responses(
        [write_rows(tmp_path / "rows.jsonl", row | {"score": 0.5, "answer": ["4", "4"]})]
    ).read()
    assert [(each.answer, each.score) for each in both] == [("4", None), ("4", None)]


def lm_eval_rows(*filters: str, **changes: Any) -> list[dict[str, Any]]:
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
        | changes
        for name in filters
        for number in range(2)
    ]


def test_samples_of_lm_eval_are_read_once_with_the_metric_of_a_filter(tmp_path: Path) -> None:
    path = tmp_path / "samples_sums_2026-11-26T13-25-50.262854.jsonl"
    write_rows(path, *lm_eval_rows("strict", "flexible"))
    file = open_responses([path])
    assert (file.form, file.scorer, file.poses) == ("lm-eval", "exact_match,strict", "sums")
    assert file.settings == {"temperature": 0.7, "max_gen_toks": 40, "do_sample": True}
    assert [(each.id, each.question, each.text) for each in file.read()] == [
        ("0", "0+2?", "It is 2."),
        ("1", "1+2?", "It is 3."),
    ]
    assert [each.score.value for each in file.read() if each.score] == ["wrong", "wrong"]
    flexible = open_responses([path], scorer="exact_match,flexible")
    assert [(e.score.value, e.score.extracted) for e in flexible.read() if e.score] == [
        ("correct", "2"),
        ("correct", "3"),
    ]
    with pytest.raises(
        InputError, match=r"Give METRIC,FILTER. Metrics: exact_match. Filters: strict, flexible"
    ):
        open_responses([path], scorer="exact_match,loose")


def test_the_gold_of_a_solution_is_its_answer(tmp_path: Path) -> None:
    file = open_responses([write_rows(tmp_path / "a.jsonl", *lm_eval_rows("strict"))])
    matcher = FromFile("own")
    assert [matcher.number(response) for response in file.read()] == [0, 1]
    assert [placed.problem.answer for placed in matcher.placed()] == ["2", "3"]


def test_samples_of_lm_eval_with_several_responses_options_and_of_older_versions(tmp_path: Path) -> None:
    several = write_rows(tmp_path / "a.jsonl", *lm_eval_rows("maj@2", resps=[["It is 2.", "It is 3."]]))
    responses = list(open_responses([several]).read())
    assert [each.text for each in responses] == ["It is 2.", "It is 3."] * 2
    assert not any(each.score for each in responses)
    prompts = ["1+1?\n2\n\n0+2?", "1+1?\n2\n\n1+2?"]
    options = {"Question": "Which?", "choices": ["red", "blue"]}
    choice = write_rows(tmp_path / "b.jsonl", *lm_eval_rows("none", doc=options, target="(A)"))
    assert [each.question for each in open_responses([choice]).read()] == prompts
    old = [row | {"arguments": [["0+2?", {"until": []}]]} for row in lm_eval_rows("strict", "flexible")]
    for row in old:
        del row["filter"], row["metrics"]
    (first, second) = open_responses([write_rows(tmp_path / "c.jsonl", *old)]).read()
    assert (first.text, second.text, first.score) == ("It is 2.", "It is 3.", None)
    likelihoods = write_rows(tmp_path / "d.jsonl", *lm_eval_rows("none", resps=[[["-1.5", "False"]]]))
    with pytest.raises(InputError, match="Log-likelihood tasks cannot be imported"):
        list(open_responses([likelihoods]).read())
    odd = write_rows(
        tmp_path / "e.jsonl", *lm_eval_rows("none", doc_id=[1], filter=["a"], metrics="em", doc="x")
    )
    assert [each.text for each in open_responses([odd]).read()] == ["It is 2."]
    other = write_rows(tmp_path / "f.jsonl", {"question": "1+1?", "response": "2"})
    with pytest.raises(InputError, match=r'f\.jsonl:1: it has no "resps"'):
        list(open_responses([other], "lm-eval").read())


def test_a_log_that_is_none_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    path.write_bytes(b"PK")
    with pytest.raises(
        InputError, match=r"cannot be read as an inspect_ai log \(BadZipFile: File is not a zip file\)"
    ):
        open_responses([path])


def test_an_unfinished_log_gives_what_is_there_and_a_broken_sample_its_number(tmp_path: Path) -> None:
    about = {"eval": {"model": "m", "task": "sums", "run_id": "r"}, "plan": {"config": {"top_p": 0.9}}}
    message = {
        "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "attachment://a"}]
    }
    sample = {"id": 1, "epoch": 1, "input": [{"role": "user", "content": "2+2?"}], "target": ["4", "four"]}
    sample |= {"output": {"choices": [{"message": message}]}, "attachments": {"a": "\\boxed{4}"}}
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
