"""The training files of a run: an export of a neighbor set, as its manifest describes it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluator.grading import AnswerKind
from rephraser.sets.types import SetHeader
from service.errors import InputError
from service.hashing import file_sha256
from trainer_adapter.verl.export import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST_NAME,
    ROWS,
    TRAIN_NAME,
    VALIDATION_NAME,
    AnswerForm,
    Layout,
    validation_size,
)
from trainer_adapter.verl.export_config import SetRows
from trainer_adapter.verl.image_prompts import holds_images
from trainer_adapter.verl.prompts import PromptTemplate


@dataclass(frozen=True)
class TrainingData:
    """An export for verl."""

    folder: Path
    set_ref: str  # NAME@VERSION
    content_hash: str  # of the set
    layout: Layout
    questions: int  # for training
    neighbors_per_question: Mapping[int, int]  # number of training questions by number of neighbors
    validation_questions: int  # held back; 0 without a validation file
    longest_prompt: int  # in tokens
    template: PromptTemplate  # of its prompts; verl has to use the same chat_template_kwargs
    sha256: Mapping[str, str]  # of the files, by name
    strategies: tuple[str, ...] = ()  # of its neighbors; none if all were exported
    answers: AnswerForm = field(default_factory=AnswerForm)  # how they are graded
    images: bool = False  # whether questions may have some

    @property
    def train_file(self) -> Path:
        return self.folder / TRAIN_NAME

    @property
    def validation_file(self) -> Path | None:
        return self.folder / VALIDATION_NAME if self.validation_questions else None

    @property
    def rows(self) -> int:
        """Rows of the training file, as verl counts them: of a flat export neighbors have their own."""
        neighbors = sum(size * count for size, count in self.neighbors_per_question.items())
        return self.questions + (neighbors if self.layout == "flat" else 0)

    def identity(self) -> dict[str, Any]:
        """Return what makes a run on other data another run; folders are no part of it."""
        return {
            "set": self.set_ref,
            "content_hash": self.content_hash,
            "sha256": dict(self.sha256),
            "layout": self.layout,
        }


def read_data(folder: Path, *, verify: bool = False, way_out: str = "export the set again") -> TrainingData:
    """Return the export in `folder`.

    Args:
        verify: compare the checksums of the files with the manifest's.
        way_out: ends the message if the export is damaged.
    """
    path = folder / MANIFEST_NAME
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if (manifest["format"], manifest["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise InputError(f"{path}: not the manifest of such an export. Export with --format verl.")
        data = _read(folder, manifest)
    except OSError as error:
        raise InputError(
            f"{folder}: not an export for verl ({path.name}: {error.strerror}). Create one with `tagrpo "
            "sets export NAME --format verl --out FOLDER`, or pass the set with --set."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: damaged, or not of `sets export --format verl` ({error!r}); {way_out}."
        ) from error
    for name, expected in data.sha256.items():
        file = folder / name
        if not file.is_file():
            raise InputError(f"{file}: the file is missing, although manifest.json lists it; {way_out}.")
        if verify and file_sha256(file) != expected:
            raise InputError(
                f"{file}: changed after the export (its checksum differs from the manifest); {way_out}."
            )
    return data


def read_again(
    config: SetRows, header: SetHeader, folder: Path, template: PromptTemplate, answers: AnswerForm
) -> TrainingData:
    """Return the export that a run began with."""
    way_out = f"remove {folder} and run the same command to export {header.ref} again"
    data = read_data(folder, verify=True, way_out=way_out)
    held_back = validation_size(config.validation_share, data.questions + data.validation_questions)
    compared = {
        "set": (data.content_hash, header.content_hash),
        "validation_share": (data.validation_questions, held_back),
        "preset or prompt_file": tuple((each.instruction, each.system) for each in (data.template, template)),
        "strategies": (data.strategies, tuple(sorted(config.strategies))),
        "answer_kind or tolerance": (data.answers, answers),
    }
    changed = [name for name, (was, now) in compared.items() if was != now]
    if changed:
        raise InputError(
            f"{folder}: the run has exported {data.set_ref} with another {', '.join(changed)}. Use the run's "
            "original settings, or choose another --name."
        )
    return data


def _read(folder: Path, manifest: Mapping[str, Any]) -> TrainingData:
    counts = manifest["counts"]
    per_question = {int(size): int(count) for size, count in counts["neighbors_per_question"].items()}
    return TrainingData(
        folder=folder,
        set_ref=str(manifest["set"]),
        content_hash=str(manifest["content_hash"]),
        layout={name: name for name in ROWS}[manifest["layout"]],
        questions=int(counts["questions"]),
        neighbors_per_question=per_question,
        validation_questions=int(counts["validation_questions"]),
        longest_prompt=int(counts["longest_prompt"]),
        template=PromptTemplate(**manifest["prompt"]),
        sha256=dict(manifest["sha256"]),
        strategies=tuple(manifest.get("strategies", ())),
        answers=AnswerForm(AnswerKind(manifest["answers"]["kind"]), manifest["answers"]["tolerance"]),
        images=holds_images(folder / TRAIN_NAME),
    )
