"""Known benchmarks: the catalogue, files and Hub sets read as them, changed rows, gated rows, golds."""

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hub_folder import HubSet, in_own_process, serve_hub
from json_rows import write_rows

from evaluator.benchmarks.catalogue import BENCHMARKS
from evaluator.benchmarks.golds import check_golds, require_golds
from evaluator.benchmarks.loading import load_benchmark
from evaluator.benchmarks.rows import canonical_integer
from evaluator.benchmarks.types import ChangedBenchmarkError
from evaluator.evals.problems import make_problem
from evaluator.grading import AnswerKind, Grader
from service.errors import InputError

FILES = {
    "amc12": "amc12_83",
    "amc23": "amc23",
    "aime24": "aime24",
    "aime25": "aime25",
    "olympiadbench": "olympiadbench_675",
    "minerva": "minerva_272",
    "math500": "math500",
    "gsm8k": "gsm8k_test",
}
SECRET = "Which quark is the secret one"


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=1) as grader:
        yield grader


def write_gpqa(path: Path, count: int = 198) -> Path:
    names = ["Question", "Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3))]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Record ID", *names])
        for row in range(count):
            writer.writerow(
                [f"rec{row}", f"{SECRET} {row}?\n", f"right {row}\n", *(f"wrong {n}" for n in "123")]
            )
    return path


def test_the_catalogue_holds_what_each_benchmark_needs() -> None:
    for name, benchmark in BENCHMARKS.items():
        assert benchmark.name == name
        assert benchmark.licence
        assert benchmark.citation
        assert benchmark.revision is None or len(benchmark.revision) == 40
        known = benchmark.content_hash or "no copy was at hand" in benchmark.note
        assert benchmark.revision is not None or ("not pinned" in benchmark.note.lower() and known)
        assert benchmark.content_hash is None or len(benchmark.content_hash) == 64
    assert [name for name, benchmark in BENCHMARKS.items() if benchmark.gated] == ["gpqa-diamond"]


@pytest.mark.shared
@pytest.mark.parametrize("name", FILES)
def test_every_file_at_hand_is_the_benchmark_it_is_known_as(
    name: str, data_folder: Path, grader: Grader
) -> None:
    loaded = load_benchmark(name, source=data_folder / f"{FILES[name]}.jsonl")
    assert loaded.content == "as known"
    assert len(loaded.problems) == BENCHMARKS[name].rows
    assert set(loaded.source) == {"file", "sha256"}
    assert json.loads(json.dumps(loaded.source)) == loaded.source
    assert check_golds(loaded, grader) == []


@pytest.mark.shared
def test_one_changed_gold_changes_the_content_and_another_order_does_not(
    data_folder: Path, tmp_path: Path
) -> None:
    lines = (data_folder / "amc23.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    turned = tmp_path / "turned.jsonl"
    turned.write_text("".join(reversed(lines)), encoding="utf-8")
    assert load_benchmark("amc23", source=turned).content == "as known"
    rows = [json.loads(line) for line in lines]
    rows[7]["answer"] = "22"
    with pytest.raises(ChangedBenchmarkError, match="differs"):
        load_benchmark("amc23", source=write_rows(tmp_path / "edited.jsonl", *rows))


def test_gpqa_options_are_shuffled_by_the_recorded_seed(tmp_path: Path) -> None:
    path = write_gpqa(tmp_path / "gpqa_diamond.csv")
    first, again, other = (
        load_benchmark("gpqa-diamond", source=path, options_seed=seed) for seed in (0, 0, 1)
    )
    assert first.source["options_seed"] == 0
    assert first.problems == again.problems
    assert first.problems_hash != other.problems_hash
    letters = Counter(problem.answer for problem in first.problems)
    assert set(letters) == set("ABCD")
    assert min(letters.values()) > 198 / 4 - 25  # 4 standard deviations
    for row, problem in enumerate(first.problems):
        lines = problem.text.split("\n")
        assert lines[0] == f"{SECRET} {row}?"
        assert [line[:3] for line in lines[2:]] == ["(A)", "(B)", "(C)", "(D)"]
        assert lines["ABCD".index(problem.answer) + 2].endswith(f"right {row}")
        assert problem.kind is AnswerKind.CHOICE


def test_rows_of_a_gated_benchmark_never_show(tmp_path: Path, grader: Grader) -> None:
    loaded = load_benchmark("gpqa-diamond", source=write_gpqa(tmp_path / "gpqa_diamond.csv"))
    assert SECRET not in repr(loaded)
    broken = replace(loaded, problems=(*loaded.problems[:5], make_problem(SECRET, SECRET, AnswerKind.CHOICE)))
    with pytest.raises(InputError, match=r"row 5: unknown") as caught:
        require_golds(broken, grader, print, allow=False)
    assert SECRET not in str(caught.value)
    notes: list[str] = []
    require_golds(broken, grader, notes.append, allow=True)
    assert "1 of 6 gold answers are not graded correct" in notes[0]

    path = write_gpqa(tmp_path / "short.csv", 10)
    with pytest.raises(ChangedBenchmarkError) as caught:
        load_benchmark("gpqa-diamond", source=path)
    assert SECRET not in str(caught.value)
    path.write_text(path.read_text() + f'rec,"{SECRET}\x00",a,b,c,d\n{SECRET}\n')
    with pytest.raises(InputError, match=r"2 of 12 rows cannot be used") as caught:
        load_benchmark("gpqa-diamond", source=path)
    assert SECRET not in str(caught.value)
    assert "rows of a gated benchmark are not shown" in str(caught.value)
    rows = [{"Question": SECRET}]
    with pytest.raises(InputError, match="no column 'Correct Answer'") as caught:
        load_benchmark("gpqa-diamond", source=write_rows(tmp_path / "g.jsonl", *rows))
    assert SECRET not in str(caught.value)


def test_integers_lose_what_copies_spell_differently() -> None:
    spelled = ["27.0", "033", r"336^\circ", r"$336^{\circ}$", "1,450,000", "-1", "+2.", "0", "-0"]
    assert [*map(canonical_integer, spelled)] == ["27", "33", "336", "336", "1450000", "-1", "2", "0", "0"]
    for other in ("12,34", "2.5", "x", "", "7" * 5_000):  # the last has more digits than Python reads
        assert canonical_integer(other) == other


HUB_ROWS = [{"problem": f"What is {n}+{n}?", "answer": f"{2 * n:03}", "solution": "No."} for n in range(30)]
HUB_DATA = "".join(json.dumps(row) + "\n" for row in HUB_ROWS).encode()
PINNED = {name: BENCHMARKS[name].revision or "" for name in ("aime24", "aime25", "gpqa-diamond")}
SETS = {
    "HuggingFaceH4/aime_2024": HubSet({"train.jsonl": HUB_DATA}, PINNED["aime24"]),
    "math-ai/aime25": HubSet({"test.jsonl": HUB_DATA}, PINNED["aime25"]),
    "Idavidrein/gpqa": HubSet({"train.jsonl": HUB_DATA}, PINNED["gpqa-diamond"], gated=True),
    "org/mine": HubSet({"test.jsonl": HUB_DATA}),
}
SCRIPT = """
from evaluator.benchmarks.loading import load_benchmark

def read(name):
    loaded = load_benchmark(name)
    return {"golds": [p.answer for p in loaded.problems], "source": loaded.source, "content": loaded.content}
"""


@pytest.mark.slow
def test_a_benchmark_is_read_at_its_pinned_commit(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('hub = "org/mine"\nkind = "integer"\nrows = 31\n')
    names = ("aime24", "aime25", "gpqa-diamond", "amc23", str(mine))
    with serve_hub(SETS) as hub:
        aime24, aime25, gpqa, missing, other = in_own_process(
            SCRIPT, hub.address, tmp_path, *([name] for name in names)
        )
    assert aime24["golds"] == [str(2 * n) for n in range(30)]
    # A pinned commit is the content, however its rows are spelled.
    assert aime24["content"] == aime25["content"] == "pinned revision"
    assert aime24["source"] == {
        "hub": "HuggingFaceH4/aime_2024",
        "configs": [],
        "split": "train",
        "commit": BENCHMARKS["aime24"].revision,
    }
    assert gpqa["error"] == "PrerequisiteError"
    assert "accept its terms at https://huggingface.co/datasets/Idavidrein/gpqa" in gpqa["message"]
    assert "HF_TOKEN" in gpqa["message"]
    assert missing["error"] == "InputError"
    assert other["error"] == "ChangedBenchmarkError"
    assert "mine has 31 problems, but this source has 30" in other["message"]


def test_missing_columns_and_bad_rows_name_file_and_line(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", {"text": "1+1?", "answer": "2"})
    with pytest.raises(InputError, match=r"a\.jsonl: no question and answer found; available: answer, text"):
        load_benchmark("aime24", source=path)
    path.write_bytes(b'{"question": "1+1?", "answer": "2"}\n{"question": "\xff", "answer": "2"}\n')
    with pytest.raises(InputError, match=r"1 of 2 rows cannot be used:\n  a\.jsonl:2: not UTF-8"):
        load_benchmark("aime24", source=path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="the file is empty"):
        load_benchmark("aime24", source=tmp_path / "empty.jsonl")
