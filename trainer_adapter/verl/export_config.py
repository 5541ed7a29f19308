"""The config of `tagrpo sets export`: what training files for verl contain."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from service.config import Config

if TYPE_CHECKING:
    from trainer_adapter.verl.export import AnswerForm
    from trainer_adapter.verl.prompts import PromptTemplate

DATA_SOURCE = "DigitalLearningGmbH/MATH-lighteval"


class SetRows(Config):
    """What training takes of a neighbor set, and how it grades the answers."""

    strategies: tuple[str, ...] = ()
    """Only neighbors with these strategies, such as harder; by default all."""
    validation_share: float = Field(0.0, ge=0, le=0.99)
    """Share of the set's questions held back for validation."""
    answer_kind: Literal["latex", "integer", "choice", "tolerance"] = "latex"
    """Answer kind of the set's questions."""
    tolerance: str | None = None
    """Tolerance for answer_kind=tolerance, such as 1e-2 or 1%; by default 1%."""

    @property
    def answers(self) -> "AnswerForm":
        """How the answers of the set are graded."""
        from evaluator.grading import AnswerKind
        from trainer_adapter.verl.export import AnswerForm

        return AnswerForm(AnswerKind(self.answer_kind), self.tolerance)


class VerlExportConfig(SetRows):
    """Write a version of a neighbor set. All settings except `set` apply only to files for verl."""

    verb: ClassVar[str] = "export"
    set: str = Field(description="NAME (its newest version), NAME@VERSION, NAME@TAG, or an id.")
    layout: Literal["grouped", "flat"] = "grouped"
    """grouped: one row per question; flat: one row per prompt."""
    max_prompt_tokens: int = Field(512, ge=1)
    """Maximum tokens per prompt; longer neighbors are left out and counted."""
    tokenizer: str | None = None
    """Hub name or folder of the policy's tokenizer; by default lengths are estimated."""
    instruction: str | None = None
    """Instruction below each question; empty: none; by default tagrpo's own."""
    system: str | None = Field(None, description="System message; by default none.")
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the chat template."""
    data_source: str = DATA_SOURCE
    """Name by which verl chooses its reward function; by default the one for boxed answers."""

    def template(self) -> "PromptTemplate":
        """Return how prompts are made; what is not given is left to the template."""
        from trainer_adapter.verl.prompts import PromptTemplate, without_thinking

        names = ("instruction", "system", "tokenizer", "max_prompt_tokens", "chat_template_kwargs")
        given = {name: getattr(self, name) for name in names}
        known = {name: value for name, value in given.items() if value is not None}
        return without_thinking(PromptTemplate(**known))
