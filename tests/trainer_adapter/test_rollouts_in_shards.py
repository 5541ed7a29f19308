"""Responses that stay in their shards: read by row, missed with a word, copied when asked for, pruned."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from counted import assert_counts_hold, count_rows
from rollout_shards import make_record, make_step, write_run

from service.database import Database
from service.errors import InputError
from trainer_adapter.record import RolloutWriter
from trainer_adapter.record.browsing import (
    RolloutFilters,
    choose_train_run,
    page_rollouts,
    read_rollout,
    read_rollout_texts,
    read_steps,
    read_token_ratios,
    search_rollouts,
)
from trainer_adapter.record.importing import import_rollouts, prune, steps_to_prune, watch_rollouts
from trainer_adapter.record.joint_groups import page_steps
from trainer_adapter.record.rollout import GROUP_CHARACTERS, RolloutRecord, token_ratios_text


def responses(db: Database) -> list[str]:
    """Return the texts of the only run, in order."""
    with db.read() as session:
        headers = page_rollouts(session, choose_train_run(session, None).id, limit=10_000)
        texts = read_rollout_texts(session, [header.id for header in headers])
    return [texts[header.id] for header in headers]


def long_step(step: int) -> list[RolloutRecord]:
    """Return records of a step whose texts fill several row groups, each with log-ratios of two tokens."""
    records = []
    for question in range(3):
        for session in range(8):
            response = f"{step} {question} {session} " + "x = 2; " * (GROUP_CHARACTERS // 50)
            ratios = token_ratios_text((3, len(response) - 3), np.array([session / 8, -1.0]))
            records.append(
                make_record(step, question, session, response=response, tokens=2, token_ratios=ratios)
            )
    return records


def test_texts_are_read_from_the_row_groups_of_shards(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    with RolloutWriter(folder, "ta") as writer:
        for step in (1, 2):
            writer.write(step, long_step(step))
    about = pq.ParquetFile(folder / "step-00000001.parquet").metadata
    assert about.num_row_groups == 3
    import_rollouts(db, folder)
    assert (
        count_rows(db, "rollouts"),
        count_rows(db, "rollout_texts"),
        count_rows(db, "rollout_tokens"),
    ) == (48, 0, 0)
    records = [*long_step(1), *long_step(2)]
    assert responses(db) == [record.response for record in records]
    with db.read() as session:
        run = choose_train_run(session, None)
        headers = page_rollouts(session, run.id, limit=100)
        assert read_rollout(session, headers[30].id).response == records[30].response
        ratios = read_token_ratios(session, headers[30].id)
        assert ratios is not None
        assert ratios.log_ratios == (records[30].session / 8, -1.0)
        page = search_rollouts(session, run.id, RolloutFilters(text="2 1 6 x"))
        assert [header.id for header in page.rollouts] == [headers[24 + 8 + 6].id]
    assert_counts_hold(db)


def test_a_step_trained_again_is_read_from_its_new_file_once_it_is_imported(
    db: Database, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "rollouts")
    import_rollouts(db, folder)
    with RolloutWriter(folder, "ta") as writer:
        writer.write(1, [replace(record, response=record.response + "!") for record in make_step(1)])
    with pytest.raises(InputError, match=r"step-00000001\.parquet: was written again since.*rollouts import"):
        responses(db)
    assert import_rollouts(db, folder).replaced == 1
    assert [each[-1] for each in responses(db)] == ["!"] * 16 + ["."] * 16


def test_a_shard_that_is_gone_is_named_and_found_where_it_is_imported_from(
    db: Database, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "rollouts")
    import_rollouts(db, folder)
    before = responses(db)
    moved = folder.rename(tmp_path / "archive")
    with pytest.raises(
        InputError, match=r"step-00000001\.parquet: the responses lie in this file, which is not"
    ):
        responses(db)
    with db.read() as session:
        assert len(page_rollouts(session, choose_train_run(session, None).id, limit=99)) == 32
    assert import_rollouts(db, moved).unchanged == 2
    assert responses(db) == before
    assert import_rollouts(db, moved).unchanged == 2


def test_a_damaged_text_is_a_line_that_names_the_file(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    with RolloutWriter(folder, "ta") as writer:
        writer.write(1, long_step(1))
    import_rollouts(db, folder)
    path = folder / "step-00000001.parquet"
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    content = bytearray(path.read_bytes())
    content[columns["response"].data_page_offset + columns["response"].total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"step-00000001\.parquet: is damaged"):
        responses(db)


def test_texts_are_copied_into_the_database_when_asked_for(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    with RolloutWriter(folder, "ta") as writer:
        writer.write(1, long_step(1))
    write_run(folder, (2,))
    import_rollouts(db, folder)
    before = responses(db)
    assert import_rollouts(db, folder, texts=True).unchanged == 2
    assert (count_rows(db, "rollout_texts"), count_rows(db, "rollout_tokens")) == (40, 24)
    for path in folder.glob("step-*"):
        path.unlink()
    assert responses(db) == before
    with db.read() as session:
        headers = page_rollouts(session, choose_train_run(session, None).id, limit=99)
        ratios = read_token_ratios(session, headers[3].id)
        assert ratios is not None
        assert ratios.log_ratios == (3 / 8, -1.0)
        assert read_token_ratios(session, headers[30].id) is None
    write_run(folder, (3,))
    [imported] = watch_rollouts(db, folder, texts=True, every_s=0.01, idle_s=0.0)
    assert imported.new == 1  # type: ignore[union-attr]
    assert count_rows(db, "rollout_texts") == 56


def test_pruning_keeps_every_kth_step_and_the_last(db: Database, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "rollouts", range(1, 12))
    import_rollouts(db, folder)
    with RolloutWriter(folder, "ta") as writer:
        writer.write(3, [make_record(3, 9)])  # trained again, not imported yet
    with db.read() as session:
        run = choose_train_run(session, None)
        leaving = steps_to_prune(session, run.id, keep_every=4, keep_last=2)
    assert [each.step for each in leaving] == [1, 2, 3, 5, 6, 7, 9]
    assert [each.file is None for each in leaving] == [each.step == 3 for each in leaving]
    prune(db, run.id, leaving)
    left = sorted(int(path.stem[5:]) for path in folder.glob("step-*.parquet"))
    assert left == [3, 4, 8, 10, 11]
    with db.read() as session:
        assert [each.step for each in page_steps(session, run.id)] == [4, 8, 10, 11]
        assert len(read_steps(session, run.id)) == 11  # with metrics
        assert steps_to_prune(session, run.id, keep_every=4, keep_last=2) == []
    assert len(responses(db)) == 64
    done = import_rollouts(db, folder)
    assert (done.new, done.unchanged) == (1, 4)
    assert_counts_hold(db)
    assert db.integrity_report() == []


def test_prompts_without_responses_go_with_them(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    with RolloutWriter(folder, "ta") as writer:
        for step in (1, 2, 3):
            writer.write(step, [make_record(step, step, session) for session in range(8)])
    import_rollouts(db, folder)
    with db.read() as session:
        run = choose_train_run(session, None)
        leaving = steps_to_prune(session, run.id, keep_every=2, keep_last=0)
    prune(db, run.id, leaving)
    assert (count_rows(db, "rollouts"), count_rows(db, "rollout_prompts")) == (8, 2)
