"""Reading files: formats, places, canonical text, and every way a file can be broken."""

import csv
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hub_folder import CLOSED, COMMIT, HubSet, in_own_process, serve_hub
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from rephraser.questions.importing import ReadRows, read_source
from service.errors import InputError
from service.hashing import canonical_json, canonical_text, content_hash, content_id
from service.questions.columns import Columns, RowLimits
from service.questions.files import read_objects

TWO = [{"question": "What is 1+1?", "answer": "2"}, {"question": "What is 2+3?", "answer": 5}]


def jsonl(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(path: Path, content: bytes | None = None, **limits: object) -> ReadRows:
    if content is not None:
        path.write_bytes(content)
    return read_source(
        str(path),
        columns=Columns(),
        limits=RowLimits(**limits),  # type: ignore[arg-type]
    )


def answers(rows: ReadRows) -> list[tuple[int, str, str]]:
    return [(member.position, member.question.text, member.question.answer) for member in rows.members]


EXPECTED = [(0, "What is 1+1?", "2"), (1, "What is 2+3?", "5")]


def test_json_lines_with_byte_order_mark_blank_lines_and_crlf(tmp_path):
    content = b"\xef\xbb\xbf" + jsonl(*TWO).replace(b"\n", b"\r\n\r\n")
    assert answers(read(tmp_path / "a.jsonl", content)) == EXPECTED


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=("Cc", "Cs"), include_characters="\n\t\r")), max_size=6)
)
def test_any_text_survives_every_format(texts):
    texts = [f"{number}: {text}" for number, text in enumerate(texts)]
    rows = [{"question": text, "answer": str(number)} for number, text in enumerate(texts)]
    expected = [(number, canonical_text(text), str(number)) for number, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
        (folder / "a.jsonl").write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
        )
        with (folder / "a.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["question", "answer"])
            writer.writeheader()
            writer.writerows(rows)
        parquet.write_table(pa.table({"question": texts, "answer": texts}), folder / "a.parquet")
        for path in sorted(folder.iterdir()):
            if not rows:
                with pytest.raises(InputError, match=r"contains no rows|is empty|looks like the"):
                    read(path)
            elif path.suffix == ".parquet":
                assert [text for _, text, _ in answers(read(path))] == [text for _, text, _ in expected]
            else:
                assert answers(read(path)) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "the file is empty"),
        ("a.json", b'[{"question": "x"', "not a complete one"),
        ("a.jsonl", b"{}\n", "no column looks like the question"),
        ("a.json", b'{\n "examples": []\n}\n', "is one JSON object"),
        ("a.json", b'{"question": \n{}\n', r"a\.json:1: not valid JSON \(Expecting value, column 14\)"),
        ("a.csv", b"question,answer\nx,1\ny\xff,2\n", r"a\.csv:3: not UTF-8: byte 0xff"),
        (
            "a.jsonl",
            b'{"question": "caf\xe9?", "answer": "1"}\n',
            r"a\.jsonl:1: not UTF-8: byte 0xe9 at byte 18 of the line",
        ),
        ("a.jsonl", b"[" * 100_000 + b"\n", "not a complete one"),
        ("a.jsonl", b'{"question": ' + b"[" * 100_000 + b"\n", "nested too deeply|not valid JSON"),
        ("a.csv", b'"question,answer\nx,1\n', r"a\.csv:1: not valid CSV"),
        ("a.csv", b"question,answer,answer\nx,y,z\n", r'a\.csv:1: the header .* column "answer" twice'),
        ("a.csv", b"question;answer\nx;1\n", r"a\.csv:1: the header is one column\. Separate columns by"),
        ("a.csv", b"question,answer\nx\n", r"a\.csv:2: has 1 field, but the header has 2"),
        ("a.csv", b"\nquestion,answer\n\n\nx,1,2\n", r"a\.csv:5: has 3 fields, but the header has 2"),
        (
            "a.csv",
            b'question,answer\n"x,1\n',
            r"a\.csv:2: not valid CSV \(unexpected end of data\)\. A quote may be unclosed",
        ),
        ("a.txt", b"hello", "unknown file type"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, content)


def test_nul_and_other_control_characters_are_refused_or_stripped(tmp_path):
    content = jsonl({"question": "a\0b\x1b[31m", "answer": "\x0crac12"})
    with pytest.raises(InputError, match=r'"question" contains the control character U\+0000 at character 2'):
        read(tmp_path / "a.jsonl", content)
    with pytest.raises(InputError, match=r'U\+000C at character 1 \(often caused by "\\f" in LaTeX'):
        read(tmp_path / "a.jsonl", jsonl({"question": "a", "answer": "\x0crac12"}))
    assert answers(read(tmp_path / "a.jsonl", content, strip_control=True)) == [(0, "ab[31m", "rac12")]
    with pytest.raises(InputError, match='"question" is empty'):
        read(tmp_path / "a.jsonl", jsonl({"question": "\1", "answer": "1"}), strip_control=True)


def test_a_question_of_a_megabyte_is_refused_unless_allowed(tmp_path):
    content = jsonl({"question": "x" * 1_000_000, "answer": "1"})
    with pytest.raises(
        InputError, match=r"has 1,000,000 characters, more than 100,000\. Raise --max-characters"
    ):
        read(tmp_path / "a.jsonl", content)
    rows = read(tmp_path / "a.jsonl", content, max_characters=1_000_000)
    assert len(rows.members[0].question.text) == 1_000_000


HUB_ROWS = [{"problem": f"What is {n}+{n}?", "solution": f"It is \\boxed{{{2 * n}}}."} for n in range(5)]
HUB_DATA = "".join(json.dumps(row) + "\n" for row in HUB_ROWS).encode()
SCRIPT = """
from service.questions.columns import Columns, RowLimits
from rephraser.questions.importing import read_source

def read(source, options):
    rows = read_source(source, columns=Columns(), limits=RowLimits(), **options)
    return {"golds": [member.question.answer for member in rows.members], "origin": rows.opened.origin}
"""


@pytest.mark.slow
def test_a_data_set_is_read_at_the_commit_that_is_recorded(tmp_path):
    with serve_hub({"org/tiny": HubSet({"train.jsonl": HUB_DATA})}) as hub:
        found, nothing, revision, split, config = in_own_process(
            SCRIPT,
            hub.address,
            tmp_path,
            ["org/tiny", {}],
            ["org/nothing", {}],
            ["org/tiny", {"revision": "v9"}],
            ["org/tiny", {"split": "validation"}],
            ["org/tiny", {"configs": ["large"]}],
        )
    assert found["golds"] == ["0", "2", "4", "6", "8"]
    assert (found["origin"]["commit"], found["origin"]["split"]) == (COMMIT, "train")
    assert f"/datasets/org/tiny/resolve/{COMMIT}/train.jsonl" in hub.asked
    for result, message in (
        (nothing, "no such dataset on the Hub"),
        (revision, 'the Hub has no revision "v9"'),
        (split, "see --config and --split"),
        (config, "see --config and --split"),
    ):
        assert result["error"] == "InputError"
        assert message in result["message"]

    # The network goes away; what was read stays readable, and is not taken for another revision.
    cached, prefix, other = in_own_process(
        SCRIPT,
        CLOSED,
        tmp_path,
        ["hf:org/tiny", {}],
        ["org/tiny", {"revision": COMMIT[:10]}],
        ["org/tiny", {"revision": "v2"}],
    )
    assert cached == found
    assert prefix["golds"] == found["golds"]
    assert other["error"] == "PrerequisiteError"
    assert 'may differ from the revision "v2"' in other["message"]


def test_csv_with_quoted_line_breaks_and_tsv(tmp_path):
    rows = read(tmp_path / "a.csv", b'answer,question\r\n2,"What is\r\n1+1?"\r\n5,What is 2+3?\r\n')
    assert answers(rows) == [(0, "What is\n1+1?", "2"), (1, "What is 2+3?", "5")]
    assert answers(read(tmp_path / "a.tsv", b"question\tanswer\nWhat is 1+1?\t2\n")) == EXPECTED[:1]
    assert answers(read(tmp_path / "b.csv", b"\nquestion,answer\n\nWhat is 1+1?,2\n")) == EXPECTED[:1]


def test_parquet_with_numbers_and_missing_values(tmp_path):
    table = pa.table(
        {
            "problem": ["a?", "b?", "c?", "d?"],
            "answer": [3.0, 0.5, float("nan"), None],
            "level": [1, 2, None, 4],
            "unused": [[1], [2], [3], [4]],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    rows = read(tmp_path / "a.parquet")
    assert [answer for _, _, answer in answers(rows)] == ["3", "0.5", "", ""]
    assert [member.question.level for member in rows.members] == ["1", "2", None, "4"]


@given(st.text())
def test_canonical_text_is_idempotent(text):
    assert canonical_text(canonical_text(text)) == canonical_text(text)


def test_ids_are_stable_across_versions():
    pinned = "0d51d9d35dfc3f9cee1895d990695d4fecacd32b365e5c4367783619a023c9e4"
    assert content_hash("q", {"text": "1+1?", "answer": "2"}) == pinned
    assert content_id("q", {"answer": "2", "text": "1+1?"}) == f"q_{pinned[:24]}"


def test_a_line_that_is_not_an_object_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    for content, message in {
        b'{"a": 1}\n{"a"': r"a\.jsonl:2: not valid JSON .*the file may be cut off",
        b"[" * 100_000: r"a\.jsonl:1: not valid JSON",
        b'{"a": "\xe9"}': r"a\.jsonl:1: not UTF-8: byte 0xe9 at byte 8 of the line\. Save the file",
        b"[1]": r"a\.jsonl:1: not a JSON object with an a\.",
    }.items():
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            list(read_objects(path, "with an a"))


def test_objects_come_with_their_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"a": "x\u2028y"}\n\n  \r\n{"a": 2}\r\n'.encode())
    assert list(read_objects(path)) == [(1, {"a": "x\u2028y"}), (4, {"a": 2})]


def test_nan_has_no_canonical_form():
    with pytest.raises(ValueError):
        canonical_json({"x": float("nan")})
