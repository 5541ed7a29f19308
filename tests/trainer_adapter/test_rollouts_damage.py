"""Records that were killed, flipped, half copied, pruned or listed late: nothing is silently wrong."""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rescues import RECIPE
from rollout_shards import make_step, read_rollouts

from service.errors import TagrpoError
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.record.counting import current_counts
from trainer_adapter.record.diagnosing import training_source
from trainer_adapter.record.groups import GroupFilters
from trainer_adapter.record.listing import RolloutFilters, list_rollouts
from trainer_adapter.record.parquet import DamagedFileError
from trainer_adapter.record.reading import Record
from trainer_adapter.record.rescues import page_rescues, rescue_totals
from trainer_adapter.record.rollout import token_ratios_text

QUESTION = f"q_{1:024x}"
KINDS = ("step-00000002", "texts-00000002", "counts")
Query = Callable[[Record], object]
QUERIES: dict[str, Query] = {
    "steps": lambda record: record.counts().page_steps(),
    "groups": lambda record: record.counts().page_groups(GroupFilters(kind="mixed"), limit=99),
    "history": lambda record: record.counts().question_history(QUESTION),
    "drawn": lambda record: record.counts().drawn_by_step(),
    "group": lambda record: record.joint_group(2, QUESTION),
    "rollout": lambda record: [record.rollout(f"2:{row}") for row in (0, 150)],
    "list": lambda record: list_rollouts(record, RolloutFilters(step=2), limit=999),
    "search": lambda record: list_rollouts(record, RolloutFilters(text="boxed"), limit=999),
    "totals": lambda record: rescue_totals(record.counts(), record.run.spec),
    "rescues": lambda record: page_rescues(record.counts(), record.run.spec),
    "diagnosis": lambda record: [
        (source.checkpoints, list(source.texts(source.checkpoints[0].label, [QUESTION])))
        for source in [training_source(record, "ta", [(1, 3)])]
    ],
    "everything": lambda record: list(read_rollouts(record.folder)),
}


def step_with_tokens(step: int) -> list[RolloutRecord]:
    ratios = token_ratios_text((3, 0), np.array([-0.5, 0.25]))
    return [replace(record, token_ratios=ratios) for record in make_step(step, questions=20)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A record of three steps with two row groups of texts each."""
    place = tmp_path_factory.mktemp("damage") / "ta"
    with RolloutWriter(place, "ta", spec={"recipe": RECIPE}) as writer:
        for step in (1, 2, 3):
            writer.write(step, step_with_tokens(step))
    return place


def answers(place: Path) -> dict[str, object]:
    """Return what each query answers, each by a reader of its own; an error is an answer too."""
    found: dict[str, object] = {}
    for name, ask in QUERIES.items():
        try:
            record = Record(place)
            found[name] = ask(record), record.problems()
        except TagrpoError as error:
            found[name] = error
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["anywhere", "footer"])
def test_no_flipped_bit_goes_unnoticed(folder, tmp_path, kind, part):
    """Each query gives the same answer as before, or names the file: as an error, or next to the answer."""
    whole = answers(folder)
    assert not [found for found in whole.values() if isinstance(found, TagrpoError)]
    chance = random.Random(f"{kind} {part}")
    size = (folder / f"{kind}.parquet").stat().st_size
    footer = int.from_bytes((folder / f"{kind}.parquet").read_bytes()[-8:-4], "little") + 8
    noticed = 0
    for number in range(8):
        place = shutil.copytree(folder, tmp_path / str(number))
        path = place / f"{kind}.parquet"
        first = 0 if part == "anywhere" else size - footer
        content = bytearray(path.read_bytes())
        content[chance.randrange(first, size)] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        for name, found in answers(place).items():
            if isinstance(found, TagrpoError):
                assert path.name in str(found), (number, name, found)
                noticed += 1
                continue
            answer, problems = found  # type: ignore[misc]
            named = [*problems, *getattr(answer, "problems", ()), getattr(answer, "problem", None) or ""]
            if any(path.name in problem for problem in named):
                noticed += 1
                continue
            assert answer == whole[name][0], (number, name)  # type: ignore[index]
    assert noticed >= 8


def test_half_files_are_named_and_the_rest_answers(folder, tmp_path):
    for kind in KINDS:
        content = (folder / f"{kind}.parquet").read_bytes()
        for length in (0, 3, 100, len(content) // 2, len(content) - 1):
            place = shutil.copytree(folder, tmp_path / f"{kind}-{length}")
            (place / f"{kind}.parquet").write_bytes(content[:length])
            record = Record(place)
            assert [step.step for step in record.counts().page_steps()] == [1, 2, 3]
            searched = list_rollouts(record, RolloutFilters(text="boxed"), limit=999)
            named = [*record.problems(), *searched.problems]
            assert any(f"{kind}.parquet" in problem for problem in named), (kind, length)
            assert record.rollout("1:0").response.startswith("Step 1")
            (place / f"{kind}.parquet").write_bytes(content)  # the copy ends
            assert Record(place).problems() == ()


def test_a_kill_between_the_files_of_a_step_mixes_nothing(folder, tmp_path, monkeypatch):
    """A step is trained again, and the training is killed after each of its files in turn."""
    others = [replace(record, response="other", correct=False) for record in step_with_tokens(2)]
    wrong = sum(record.correct is False for record in others)
    for killed_after in (1, 2):
        place, replaced = shutil.copytree(folder, tmp_path / str(killed_after)), [0]

        def replace_some(
            path: Path, write: Callable[[Path], object], *, overwrite: bool, replaced: list[int] = replaced
        ) -> None:
            replaced[0] += 1
            if replaced[0] > killed_after:  # noqa: B023
                raise KeyboardInterrupt
            write(path)

        writer = RolloutWriter(place, "ta", background=False)
        with monkeypatch.context() as patch:
            patch.setattr("trainer_adapter.record.writing.write_file", replace_some)
            with pytest.raises(KeyboardInterrupt):
                writer.write(2, others)
        record = Record(place)
        second = record.counts().page_steps(GroupFilters(step=2))[0]
        if killed_after == 1:  # new texts, old headers
            assert second.wrong < wrong
            with pytest.raises(DamagedFileError, match=r"texts-00000002\.parquet: .* does not match"):
                record.rollout("2:0")
        else:  # new headers, old counts
            assert second.wrong == wrong
            assert record.rollout("2:0").response == "other"
        with RolloutWriter(place, "ta") as writer:  # resumed
            writer.write(2, others)
        assert record.counts().page_steps(GroupFilters(step=2))[0].wrong == wrong
        assert record.rollout("2:0").response == "other"
        assert Record(place).problems() == ()


def test_lost_counts_are_counted_again_from_the_steps(folder, tmp_path):
    whole = Record(folder).counts().page_groups(limit=99)
    place = shutil.copytree(folder, tmp_path / "ta")
    (place / "counts.parquet").unlink()
    assert Record(place).counts().page_groups(limit=99) == whole
    (place / "counts.parquet").write_bytes(b"PAR1")
    with RolloutWriter(place, "ta") as writer:
        writer.write(4, step_with_tokens(4))
    assert writer.failures == []
    record = Record(place)
    assert record.problems() == ()
    assert record.counts().page_groups(limit=60) == whole
    assert [step.step for step in record.counts().page_steps()] == [1, 2, 3, 4]


def test_files_that_a_network_file_system_shows_late(folder, tmp_path):
    """Any order in which the renames of a step become visible gives answers or a named file, then all."""
    names = [f"{kind}.parquet" for kind in ("step-00000003", "texts-00000003", "counts")]
    without = shutil.copytree(folder, tmp_path / "without")
    for name in names[:2]:
        (without / name).unlink()
    counts = current_counts(folder, "ta")[0]
    early = counts.filter(np.array(counts["step"].to_pylist()) < 3)
    assert len(early) < len(counts)
    for first, second in ((0, 1), (1, 0), (2, 0), (2, 1)):
        place = shutil.copytree(without, tmp_path / f"{first}{second}")
        (place / "counts.parquet").unlink()
        record = Record(place)
        assert [step.step for step in record.counts().page_steps()] == [1, 2]
        for name in (names[first], names[second], *names):
            shutil.copy(folder / name, place / name)
            seen = [step.step for step in record.counts().page_steps()]
            assert seen in ([1, 2], [1, 2, 3])
            if all((place / name).exists() for name in names[:2]):
                assert record.rollout("3:0").response.startswith("Step 3")
                continue
            with pytest.raises(TagrpoError, match=r"00000003\.parquet: is missing"):
                record.rollout("3:0")
        assert record.counts().page_steps() == Record(folder).counts().page_steps()
        assert record.rollout("3:0").response.startswith("Step 3")
        assert record.problems() == ()
