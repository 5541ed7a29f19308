"""The prompts of the training files, counted with the tokenizer of the model before verl is started."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from service.errors import InputError, PrerequisiteError
from trainer_adapter.runs.composing import Composition
from trainer_adapter.runs.data import TrainingData
from trainer_adapter.verl.prompts import CountPrompts, Message, PromptTemplate, prompt_counter

_MODEL = "actor_rollout_ref.model"
_TEMPLATE = f"{_MODEL}.custom_chat_template"
_ROWS_AT_ONCE = 500
_NAMED = 5


class _Prompt(NamedTuple):
    name: str
    messages: list[Message]


def check_tokenizer(composition: Composition) -> None:
    """Raise unless the model's tokenizer can be loaded here and has a chat template.

    Raises:
        InputError: it has none.
        PrerequisiteError: it cannot.
    """
    _counter(composition, {})


def check_lengths(composition: Composition, data: TrainingData) -> list[str]:
    """Raise where a prompt is longer than verl takes; return what a user should know.

    An export that counted with the model's own tokenizer has left such prompts out and says how long its
    longest is. Any other export is read here and counted again: the questions of the training and the
    validation file, and those of their neighbors that the recipe asks. Where this machine does not reach the
    tokenizer this is said; `check_tokenizer` keeps a training from starting there.

    Raises:
        InputError: prompts over the limit, with the first of them, or a tokenizer without a chat template.
        PrerequisiteError: the model is a folder of this machine without a tokenizer that can be loaded.
    """
    limit = int(composition.value("data.max_prompt_length"))
    tokenizer = _tokenizer(composition)
    counted = not data.lengths_estimated and (
        tokenizer is None
        or (
            (data.tokenizer is not None and _resolved(data.tokenizer) == _resolved(tokenizer))
            and composition.value(_TEMPLATE) is None
        )
    )
    if counted:
        if data.longest_prompt > limit:
            raise InputError(
                f"data.max_prompt_length is {limit}, but the longest prompt of {data.folder} has "
                f"{data.longest_prompt} tokens; export with --max-prompt-tokens {limit}."
            )
        return []
    if tokenizer is None:
        return ["prompt lengths of the export are estimates, and no model is named to count them with"]
    try:
        count = _counter(composition, data.chat_template_kwargs)
    except PrerequisiteError as error:
        if Path(tokenizer).is_dir() and find_spec("transformers") is not None:
            raise  # what is in a folder of this machine is no better when the training starts
        return [f"prompts were not counted with the model's tokenizer, and some may be too long: {error}"]
    longest, over = 0, []
    for file in filter(None, (data.train_file, data.validation_file)):
        for prompts in _prompts(file, composition.recipe.neighbors):
            lengths = count([prompt.messages for prompt in prompts])
            longest = max(longest, *lengths)
            over += [
                f"{prompt.name} in {file.name} has {length}"
                for prompt, length in zip(prompts, lengths, strict=True)
                if length > limit
            ]
    if over:
        named = "; ".join(over[:_NAMED]) + ("; ..." if len(over) > _NAMED else "")
        raise InputError(
            f"{data.folder}: {len(over):,} prompt{'s' if len(over) > 1 else ''} of more than {limit} tokens "
            f"as {tokenizer} counts them ({named}); verl stops at such a question and cuts such a neighbor. "
            f"Export with --tokenizer {tokenizer} --max-prompt-tokens {limit}, which leaves them out and "
            "lists them."
        )
    how = "estimated prompt lengths" if data.lengths_estimated else f"counted tokens with {data.tokenizer}"
    return [f"the export {how}; counted with {tokenizer}, the longest prompt has {longest} tokens"]


def _tokenizer(composition: Composition) -> str | None:
    named: str | None = composition.value(f"{_MODEL}.tokenizer_path") or composition.value(f"{_MODEL}.path")
    return named


def _counter(composition: Composition, arguments: Mapping[str, Any]) -> CountPrompts:
    prompt = PromptTemplate(tokenizer=_tokenizer(composition), chat_template_kwargs=arguments)
    return prompt_counter(prompt, chat_template=composition.value(_TEMPLATE))


def _prompts(file: Path, neighbors: int) -> Iterator[Sequence[_Prompt]]:
    """Yield the prompts of some rows at a time; a flat file has no column of neighbors."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        there = set(opened.schema_arrow.names)
        columns = [name for name in ("prompt", "neighbors", "neighbor_ids", "extra_info") if name in there]
        for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=columns):
            yield [prompt for row in batch.to_pylist() for prompt in _of_row(row, neighbors)]


def _of_row(row: dict[str, Any], neighbors: int) -> Iterator[_Prompt]:
    about = row.get("extra_info") or {}
    question = f"question {about.get('question_id')}"
    own = about.get("neighbor_id")
    yield _Prompt(question if own is None else f"neighbor {own} of {question}", row["prompt"])
    around = zip(row.get("neighbors") or (), row.get("neighbor_ids") or (), strict=True)
    for _, (messages, identity) in zip(range(neighbors), around, strict=False):
        yield _Prompt(f"neighbor {identity} of {question}", messages)


def _resolved(model: str) -> str:
    return str(Path(model).resolve()) if Path(model).is_dir() else model
