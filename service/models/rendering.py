"""From a problem to a prompt: through the model's chat template or as raw text, to token ids."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from service.errors import InputError
from service.hashing import content_id
from service.models.drawing import ProblemToDraw, images_of
from service.models.processors import Pictures
from service.models.settings import PromptSpec
from service.questions.images import split_at_images

THE_DAY = date(2024, 7, 26)
"""Told to templates that ask for today's date, so that a run's prompts do not change overnight; the day that
Llama 3's templates have for want of another."""

Files = Callable[[Sequence[str]], Sequence[bytes]]
"""Returns the bytes of images by their ids."""


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt: its text, the ids that the model reads, and the images among them."""

    text: str
    token_ids: tuple[int, ...]
    pictures: Pictures | None = None

    @property
    def opens_thought(self) -> bool:
        """Whether it ends on `<think>`, as templates of reasoning models do, so that responses lack it."""
        return self.text.rstrip().endswith("<think>")


@dataclass(frozen=True)
class PlannedPrompt:
    """A problem's prompt, and how many tokens a response may have: less than asked where the context ends."""

    prompt: Prompt
    max_tokens: int


class PromptRoomError(InputError):
    """Prompts that leave no room for an answer: by problems' ids, what is wrong with each."""

    def __init__(self, message: str, reasons: Mapping[int, str]) -> None:
        super().__init__(message)
        self.reasons = reasons


class Renderer:
    """Makes prompts for one model: its tokenizer (of transformers), and its name for messages.

    `open_processor` opens the processor of a model that takes images.
    """

    def __init__(self, tokenizer: Any, model: str, open_processor: Callable[[], Any] | None = None) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._open_processor = open_processor
        self._template = _chat_template(tokenizer)

    @property
    def template_id(self) -> str | None:
        """Content id of the chat template; None where the model has none and prompts are raw text."""
        if self._template is None:
            return None
        # What is done about these shapes prompts and responses too.
        marks = [str(THE_DAY)] * self._asks_the_day + ["<think>"] * self._opens_thoughts
        return content_id("template", [self._template, *marks] if marks else self._template)

    @property
    def _asks_the_day(self) -> bool:
        return "strftime_now" in (self._template or "")

    @property
    def _opens_thoughts(self) -> bool:
        try:
            return Prompt(self._apply("?", PromptSpec(template="{question}")), ()).opens_thought
        except InputError:  # said where a question is rendered
            return False

    def notices(self, prompt: PromptSpec) -> list[str]:
        """Return what the user should know before anything is drawn.

        Raises:
            InputError: a system prompt, but no chat template to put it into.
        """
        if prompt.form == "raw":
            return []
        if self._template is None:
            if prompt.system:
                raise InputError(
                    f"{self._model} has no chat template, so there is no place for a system prompt; "
                    "take a chat model, or put its text into the prompt (--prompt-file)."
                )
            notices = [f"{self._model} has no chat template: its prompts are raw text, which it continues."]
            if prompt.chat_template_kwargs:
                notices.append(f"without a template, nothing reads {_names(prompt.chat_template_kwargs)}.")
            return notices
        template = self._template
        unread = [name for name in prompt.chat_template_kwargs if not re.search(rf"\b{name}\b", template)]
        if unread:
            return [f"the chat template of {self._model} never reads {_names(unread)}; it changes nothing."]
        return []

    def render(self, question: str, prompt: PromptSpec) -> Prompt:
        """Return the prompt of a question.

        A chat prompt is what the template makes of it, with the tokens that open the answer; the template
        alone sets special tokens. Raw text gets those that the tokenizer puts around any text, a leading BOS
        only once.

        Raises:
            InputError: the template rejects or drops the system prompt, or fails.
        """
        text = prompt.fill(question)
        if prompt.form == "raw" or self._template is None:
            return self._raw(text)
        rendered = self._apply(text, prompt)
        ids = self._tokenizer(rendered, add_special_tokens=False)["input_ids"]
        return Prompt(rendered, tuple(ids))

    def render_with_images(self, question: str, files: Sequence[bytes], prompt: PromptSpec) -> Prompt:
        """Return the prompt of a question whose text says `<image>` where each of its images stands.

        Raises:
            InputError: the model takes no images, raw text is asked for, or what `render` raises.
        """
        if self._open_processor is None:
            raise InputError(
                f"{self._model} takes no images; name a model that does (Qwen/Qwen2.5-VL-3B-Instruct), or "
                "leave the questions with images out."
            )
        processor = self._open_processor()
        if prompt.form == "raw" or not processor.chat_template:
            raise InputError(
                f"raw text has no place for images: {self._model} is given them through its chat template; "
                "leave out --raw."
            )
        filled = prompt.template.split("{question}")
        parts: list[dict[str, str]] = []
        for number, piece in enumerate(split_at_images(question)):
            parts += [{"type": "image"}] * bool(number) + [{"type": "text", "text": piece}]
        parts[0]["text"] = filled[0] + parts[0]["text"]
        parts[-1]["text"] += "{question}".join(filled[1:])
        content = [part for part in parts if part != {"type": "text", "text": ""}]
        rendered = self._apply(content, prompt, processor)
        pictures = Pictures(
            tuple(files), rendered, tuple(self._tokenizer(rendered, add_special_tokens=False)["input_ids"])
        )
        try:
            ids = processor(text=[rendered], images=pictures.opened())["input_ids"][0]
        except (ValueError, IndexError, StopIteration) as error:  # fewer places than images, or more
            raise InputError(
                f"the processor of {self._model} fails over {len(files)} images: {error}"
            ) from error
        return Prompt(rendered, tuple(map(int, ids)), pictures)

    def _raw(self, text: str) -> Prompt:
        ids = tuple(self._tokenizer(text)["input_ids"])
        bos = self._tokenizer.bos_token_id
        if bos is not None and ids[:2] == (bos, bos):  # the text brings its own
            ids = ids[1:]
        eos = self._tokenizer.eos_token_id
        if ids and ids[-1] == eos and ids[-1] != bos:  # some tokenizers end every text; it is to go on
            ids = ids[:-1]
        return Prompt(text, ids)

    def _apply(self, content: Any, prompt: PromptSpec, processor: Any = None) -> str:
        from jinja2.exceptions import TemplateError

        messages = [{"role": "user", "content": content}]
        if prompt.system:
            messages.insert(0, {"role": "system", "content": prompt.system})
        try:
            rendered: str = (processor or self._tokenizer).apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=True,
                **({"strftime_now": THE_DAY.strftime} if self._asks_the_day else {}),
                **prompt.chat_template_kwargs,
            )
        except TemplateError as error:
            way_out = " leave out --system, or put its text into the prompt." if prompt.system else ""
            raise InputError(f"the chat template of {self._model} fails: {error};{way_out}") from error
        if prompt.system and prompt.system.strip() not in rendered:
            raise InputError(
                f"the chat template of {self._model} leaves out the system prompt; "
                "leave out --system, or put its text into the prompt (--prompt-file)."
            )
        return rendered


@dataclass(frozen=True)
class PlannedPrompts:
    """The prompts of a run by its problems' ids, what is to be said about them, how others are planned."""

    by_problem: dict[int, PlannedPrompt]
    notices: list[str]
    plan: Callable[[Iterable[ProblemToDraw]], "PlannedPrompts"]

    def of(self, problem: ProblemToDraw) -> PlannedPrompt:
        """Return a problem's prompt, planned now where another process has added the problem to the run.

        Raises:
            InputError: see `plan_prompts`.
        """
        if problem.id not in self.by_problem:
            self.by_problem.update(self.plan([problem]).by_problem)
        return self.by_problem[problem.id]


def plan_prompts(
    renderer: Renderer,
    prompt_of: Callable[[ProblemToDraw], PromptSpec],
    problems: Iterable[ProblemToDraw],
    *,
    max_tokens: int,
    context: int | None,
    files: Files | None = None,
) -> PlannedPrompts:
    """Render all prompts of a run; where the context leaves less than `max_tokens`, say so and cap it.

    `prompt_of` says how a problem is put to the model. `context` is the number of tokens that prompt and
    response may have together, those of images among them; None sets no limit. `files` gives the images.

    Raises:
        PromptRoomError: a prompt is empty, or leaves no room for a single token.
        InputError: see `Renderer`.
    """
    notices: list[str] = []
    last: PromptSpec | None = None
    planned: dict[int, PlannedPrompt] = {}
    too_long: list[tuple[ProblemToDraw, str]] = []
    for problem in problems:
        prompt = prompt_of(problem)
        if prompt is not last:
            notices += [notice for notice in renderer.notices(prompt) if notice not in notices]
            last = prompt
        images = images_of(problem)
        if images and files is not None:
            rendered = renderer.render_with_images(problem.text, files(images), prompt)
        else:
            rendered = renderer.render(problem.text, prompt)
        length = len(rendered.token_ids)
        room = max_tokens if context is None else min(max_tokens, context - length)
        if not length or room < 1:
            what = f"{length} tokens, and the model's context is {context}" if length else "no tokens"
            too_long.append((problem, what))
        else:
            planned[problem.id] = PlannedPrompt(rendered, room)
    if too_long:
        problem, what = too_long[0]
        raise PromptRoomError(
            f"the prompt of problem {problem.position + 1} ({problem.problem_id}) has {what}; "
            "take a model with a longer context, a shorter prompt, or leave the problem out.",
            {problem.id: f"its prompt has {what}" for problem, what in too_long},
        )
    rooms = [planned_prompt.max_tokens for planned_prompt in planned.values()]
    if capped := [room for room in rooms if room < max_tokens]:
        notices.append(
            f"{len(capped)} of {len(rooms)} prompts leave less than {max_tokens} tokens in the context of "
            f"{context}: their responses are cut earlier, the shortest after {min(capped)} tokens."
        )
    plan = partial(plan_prompts, renderer, prompt_of, max_tokens=max_tokens, context=context, files=files)
    return PlannedPrompts(planned, notices, plan)


def _chat_template(tokenizer: Any) -> str | None:
    if not tokenizer.chat_template:
        return None
    if isinstance(tokenizer.chat_template, str):
        return tokenizer.chat_template
    template: str = tokenizer.get_chat_template()  # one of several by name
    return template


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
