"""Files of rollouts: what is written is read, a kill leaves whole files, faults name the file."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rollout_shards import make_record, make_step, read_rollouts, write_run

from evaluator.signal.sources import file_source
from service.errors import InputError
from trainer_adapter.record import RolloutWriter
from trainer_adapter.record.files import METRICS_FILE, read_headers, read_metrics, read_run
from trainer_adapter.record.parquet import DamagedFileError
from trainer_adapter.record.reading import Record


def test_what_is_written_is_read(tmp_path):
    steps = {step: make_step(step, questions=30) for step in (3, 1, 12)}  # more than one row group
    steps[1][5] = make_record(1, 0, 5, correct=None, neighbor_id=None, prompt=None, extracted=None)
    with RolloutWriter(tmp_path, "ta") as writer:
        for step, records in steps.items():
            writer.write(step, iter(records))
    assert list(read_rollouts(tmp_path)) == [*steps[1], *steps[3], *steps[12]]
    assert writer.failures == []
    names = sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert names[:2] == ["counts.parquet", "step-00000001.parquet"]
    assert pq.ParquetFile(tmp_path / "texts-00000001.parquet").metadata.num_row_groups == 2
    assert steps[1][5].grade == "unknown"


def test_a_step_trained_again_replaces_its_file(tmp_path):
    write_run(tmp_path, (1, 2))
    with RolloutWriter(tmp_path, "ta", spec={"recipe": "another"}) as writer:
        writer.write(2, [make_record(2, 7)])
        writer.write(3, [])
    assert [one.question_id[-1] for one in read_rollouts(tmp_path) if one.step == 2] == ["7"]
    assert not (tmp_path / "step-00000003.parquet").exists()
    assert read_run(tmp_path).spec == {"recipe": "ta_grpo"}


def test_a_folder_belongs_to_one_run(tmp_path):
    write_run(tmp_path)
    with pytest.raises(InputError, match="belongs to run 'ta'"):
        RolloutWriter(tmp_path, "other")
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError, match=r"run\.json"):
        RolloutWriter(tmp_path, "ta")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="cannot record rollouts"):
        RolloutWriter(blocked / "folder", "ta")


def test_broken_text_is_kept_readable_and_numbers_that_are_not_finite_are_left_out(tmp_path):
    odd = {"response": "a\ud800b\x00é", "extracted": "\udfff", "prompt": ""}
    with RolloutWriter(tmp_path, "ta") as writer:
        writer.write(1, [make_record(**odd, advantage=float("nan"), old_log_prob=float("-inf"))])
    (found,) = read_rollouts(tmp_path)
    assert (found.response, found.extracted, found.prompt) == ("a\ufffdb\x00é", "\ufffd", "")
    assert (found.advantage, found.old_log_prob) == (None, None)


def test_steps_that_cannot_be_written_leave_no_file(tmp_path):
    with RolloutWriter(tmp_path, "ta", background=False) as writer:
        writer.write(1, [make_record()])
        with pytest.raises(ValueError, match="reward nan is not finite"):
            writer.write(2, [make_record(2, reward=float("nan"))])
        with pytest.raises(ValueError, match="step 2 contains a record of step 5"):
            writer.write(2, [make_record(2), make_record(5)])
    names = ["counts.parquet", "run.json", "step-00000001.parquet", "texts-00000001.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_metrics_survive_a_line_cut_short(tmp_path):
    with RolloutWriter(tmp_path, "ta") as writer:
        writer.write_metrics(1, {"a": 1, "b": float("nan"), "c": "text", "d": None, "e": True})
        with (tmp_path / METRICS_FILE).open("a") as file:
            file.write('{"step": 2, "metr')
        writer.write_metrics(3, {"a": 3})
        writer.write_metrics(1, {"a": 5})
    assert read_metrics(tmp_path) == ({1: {"a": 5.0}, 3: {"a": 3.0}}, 1)
    assert read_metrics(tmp_path / "nowhere") == ({}, 0)
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'garbage\n[1]\n\xff\xfe\n{"step": "x"}\n\n')
    found, unread = read_metrics(tmp_path)
    assert found == {1: {"a": 5.0}, 3: {"a": 3.0}}
    assert unread == 5


def test_faults_name_the_file(tmp_path):
    path = write_run(tmp_path, (1,)) / "step-00000001.parquet"
    table = pq.read_table(path).replace_schema_metadata(pq.read_metadata(path).metadata)
    about = {**table.schema.metadata, b"tagrpo.rollouts": b"1"}
    other_type = pa.array([1] * 16, pa.int64())
    for content, problem in (
        (table.replace_schema_metadata(about), "tagrpo.rollouts is '1' in this file, not '3'"),
        (table.replace_schema_metadata(None), "tagrpo.rollouts is 'nothing'"),
        (
            table.set_column(table.schema.get_field_index("tokens"), "tokens", other_type),
            "column 'tokens' does not contain the written values",
        ),
        (table.drop_columns("variant"), "damaged or still being copied"),
    ):
        pq.write_table(content, path)
        with pytest.raises(DamagedFileError, match=rf"step-00000001\.parquet: .*{problem}"):
            read_headers(tmp_path, "ta", 1)
        (named,) = Record(tmp_path).problems()
        assert str(path) in named


def test_the_diagnostics_count_a_step_by_correctness_where_rewards_are_shaped(tmp_path):
    with RolloutWriter(tmp_path, "ta") as writer:
        rewards = [(0.37, True), (-0.5, False), (0.0, None), (0.9, True)]
        writer.write(1, [make_record(1, 0, s, reward=r, correct=c) for s, (r, c) in enumerate(rewards)])
    (group,) = file_source(tmp_path / "step-00000001.parquet").checkpoints[0].groups
    (prompt,) = group.prompts
    assert (prompt.correct, prompt.wrong, prompt.unknown) == (2, 1, 1)
    table = pa.table({"question_id": ["q"], "step": [1]})
    path = tmp_path / "mine.parquet"
    pq.write_table(table, path)
    with pytest.raises(InputError, match=r"mine\.parquet: row 0: has no reward"):
        file_source(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"mine\.parquet: not a readable parquet file"):
        file_source(path)
