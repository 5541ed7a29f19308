"""A published set as an environment of verifiers 0.4: `vf-eval tagrpo` evaluates, prime-rl trains.

An episode asks a question and each of its neighbors, every response under the prompt that it was drawn for. A
trainer that compares the responses of a task's episodes, as prime-rl does, has joint groups by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from evaluator.grading import AnswerKind
from evaluator.grading.extraction import gold_answer
from rephraser.sets.reimport import read_published
from service.errors import InputError, missing_extra
from service.questions.files import read_objects
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.verl.export import AnswerForm
from trainer_adapter.verl.prompts import DEFAULT_INSTRUCTION, PromptTemplate
from trainer_adapter.verl.reward import compute_score

try:
    import httpx
    import verifiers.v1 as vf
    from pydantic import Field
except ImportError as error:
    raise missing_extra("this environment needs verifiers", "verifiers") from error

_PAUSES_S = 0.5, 2.0, 8.0
"""Before another try of a request that the model's server refused for now."""


class NeighborData(vf.TaskData):  # type: ignore[misc]
    """A question, or one of its phrasings.

    Attributes:
        answer: the gold.
        neighbors: prompts of the question's neighbors, in the set's order.
        phrasing: 0 for the question, i for its i-th neighbor.
    """

    answer: str
    neighbors: list[str] = Field(default_factory=list)
    phrasing: int = 0
    kind: AnswerKind | None = None
    """Of the question, where it is not the set's."""


class GradingConfig(vf.TaskConfig):  # type: ignore[misc]
    """How responses are graded, under `--env.taskset.task`."""

    answers: Literal["boxed", "all"] = "boxed"
    """Whether an answer counts in a box alone, or wherever the grader finds one."""
    answer_kind: AnswerKind = AnswerKind.LATEX
    """Of the set's answers: latex, integer, choice or tolerance."""
    tolerance: str | None = None
    """How far a number may differ, where the kind is tolerance."""
    grader: str = ""
    """A grader of your own, module:function, in place of the rules."""
    workers: int = Field(1, ge=1)
    """Processes that compare."""
    time_limit_s: float = Field(5.0, gt=0)
    """Seconds a comparison may take before it is unknown."""


class NeighborTask(vf.Task[NeighborData, vf.State, GradingConfig]):  # type: ignore[misc]
    """A prompt with the gold of its question; the grader is the reward."""

    @property
    def key(self) -> str:
        """The question's id, with the phrasing's number where it is a neighbor."""
        data = self.data
        return f"{data.id}#{data.phrasing}" if data.phrasing else str(data.id)

    def phrasings(self) -> list[NeighborTask]:
        """Return the tasks of the question and of each neighbor."""
        prompts = [self.data.prompt, *self.data.neighbors]
        return [
            self.with_data(prompt=prompt, phrasing=place, neighbors=[])
            for place, prompt in enumerate(prompts)
        ]

    @vf.reward  # type: ignore[untyped-decorator]
    async def correct(self, trace: vf.Trace) -> dict[str, float]:
        """Return 1 for a right answer and 0 for any other; no reward where the grader cannot tell.

        Such a response is marked as not trainable: verifiers' mean and prime-rl's groups leave it out.
        """
        grade = await self._grade(trace.last_reply)
        trace.info["grade"] = {key: grade[key] for key in ("reason", "extracted")}
        trace.record_metric("unknown", grade["unknown"])
        if grade["unknown"]:
            trace.agent.trainable = False
            return {}
        return {"correct": grade["score"]}

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Return whether the gold, in a box, is graded as correct; of tests, whether nothing fails them."""
        programs = self._kind is AnswerKind.CODE
        gold = "" if programs else gold_answer(self.data.answer)
        grade = await self._grade("```\npass\n```" if programs else f"\\boxed{{{gold}}}")
        if grade["unknown"]:
            raise InputError(f"gold {self.data.answer!r}: the grader cannot grade it ({grade['reason']}).")
        return bool(grade["score"]) is not programs

    @property
    def _kind(self) -> AnswerKind:
        return AnswerKind(self.data.kind or self.config.answer_kind)

    async def _grade(self, response: str) -> dict[str, Any]:
        config = self.config
        return await compute_score(
            "",
            response,
            self.data.answer,
            {"answer_kind": self._kind, "tolerance": config.tolerance},
            boxed_only=config.answers == "boxed",
            grader=config.grader,
            workers=config.workers,
            time_limit_s=config.time_limit_s,
        )


class NeighborTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which set is loaded, and how its questions become prompts, under `--env.taskset`."""

    source: str = ""
    """A file or folder of `tagrpo sets export`, or a data set of the Hub (OWNER/NAME)."""
    revision: str | None = None
    """Commit, branch or tag on the Hub."""
    neighbors: int | None = Field(None, ge=0)
    """Ask only so many neighbors of a question, the first ones; 0 asks questions alone."""
    instruction: str = DEFAULT_INSTRUCTION
    """Stands below the question; "" for none."""
    task: GradingConfig = GradingConfig()


class NeighborTaskset(vf.Taskset[NeighborTask, NeighborTasksetConfig]):  # type: ignore[misc]
    """A published set: one task a question."""

    def load(self) -> list[NeighborTask]:
        """Return the questions in the set's order."""
        config = self.config
        if not config.source:
            raise InputError(
                "the set is missing. Pass --env.taskset.source (vf-validate: --taskset.source) with an "
                "export of `tagrpo sets export`, or OWNER/NAME on the Hub."
            )
        template = PromptTemplate(config.instruction)
        form = AnswerForm(config.task.answer_kind, config.task.tolerance)
        tasks = []
        for entry in read_published(config.source, config.revision):
            question = entry.question
            if question.images:
                raise InputError(
                    f"{config.source}: question {question.id} has images, which this environment does not "
                    "support. Train on this set with verl."
                )
            programs = question.kind is AnswerKind.CODE
            if not programs:
                form.check(question.answer, f"{config.source}: question {question.id}")
            asking = template.asking_for(question.kind)
            data = NeighborData(
                id=question.id,
                prompt=_prompt(asking, question.text),
                answer=question.answer,
                kind=AnswerKind.CODE if programs else None,
                neighbors=[_prompt(asking, each.text) for each in entry.neighbors[: config.neighbors]],
            )
            tasks.append(NeighborTask(data, config.task))
        return tasks


def _prompt(template: PromptTemplate, text: str) -> str:
    return template.messages(text)[-1]["content"]


class NeighborEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """Who answers, and how often, under `--env`."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    responses: int = Field(1, ge=1)
    """Responses to each phrasing in an episode."""


class NeighborEnv(vf.Env[NeighborEnvConfig]):  # type: ignore[misc]
    """One episode: responses to a question and to each of its neighbors."""

    async def run(self, task: NeighborTask, agents: vf.Agents) -> None:
        """Ask every phrasing; what fails is marked on its own trace."""
        async with asyncio.TaskGroup() as group:
            for phrasing in task.phrasings():
                for _ in range(self.config.responses):
                    group.create_task(agents.agent.run(phrasing))


class OneReply(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """One request and its reply, from this process: no program to install, no tools."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Ask once. A refusal for now (429, 5xx) is tried again; the trace keeps what the server said."""
        system, prompt = self.resolve_text_prompt(data)
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        # With the key a try that was answered after all is not recorded twice.
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": trace.id}
        body = {"model": ctx.model, "messages": messages}
        async with httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(None, connect=30.0)) as client:
            for pause_s in (*_PAUSES_S, None):
                reply = await client.post(f"{endpoint}/chat/completions", json=body)
                if pause_s is None or (reply.status_code != 429 and reply.status_code < 500):
                    break
                await asyncio.sleep(pause_s)
        return vf.ProgramResult(int(reply.is_error), "", reply.text if reply.is_error else "")


def record_traces(traces: Path, folder: Path, run: str, *, episodes_a_step: int) -> None:
    """Record the responses of `traces.jsonl` as `tagrpo train run` records rollouts.

    verifiers writes one line per episode. Episodes of one question in a step are one group. Failed requests
    are left out.

    Args:
        folder: of the record; `tagrpo train rollouts FOLDER --add` shows it on the pages.
        episodes_a_step: episodes that the trainer takes for a step.
    """
    steps: dict[int, list[RolloutRecord]] = {}
    for line, (number, episode) in enumerate(
        read_objects(traces, "with an episode of the environment tagrpo")
    ):
        step = line // episodes_a_step + 1
        records = steps.setdefault(step, [])
        try:
            members = sorted(episode["traces"], key=lambda trace: trace["task"]["data"]["phrasing"])
            for trace in members:
                if trace["ok"]:
                    records.append(_as_record(trace, step, records))
        except (KeyError, TypeError, IndexError) as error:
            raise InputError(f"{traces}:{number}: not an episode of this environment ({error}).") from error
    with RolloutWriter(folder, run, spec={"recipe": "verifiers"}, background=False) as writer:
        for step, records in steps.items():
            writer.write(step, records)


def _as_record(trace: Mapping[str, Any], step: int, before: Sequence[RolloutRecord]) -> RolloutRecord:
    data, reply, call = trace["task"]["data"], trace["nodes"][-1], trace["calls"][-1]
    same = [record for record in before if record.question_id == data["id"]]
    groups = {record.question_id for record in before}
    unknown, score = bool(trace["metrics"]["unknown"]), trace["rewards"].get("correct", {}).get("score", 0.0)
    return RolloutRecord(
        step=step,
        question_id=data["id"],
        neighbor_id=trace["task"]["key"] if data["phrasing"] else None,
        variant=data["phrasing"],
        group=same[0].group if same else len(groups),
        session=len(same),
        prompt=data["prompt"],
        response=reply["message"]["content"],
        tokens=(call["usage"] or {}).get("completion_tokens", len(reply["token_ids"])),
        truncated=call["finish_reason"] == "length",
        reward=float(score),
        correct=None if unknown else score > 0,
        reason=trace["info"]["grade"]["reason"],
        extracted=trace["info"]["grade"]["extracted"] or None,
        sampling_log_prob=sum(reply["logprobs"]) if reply["logprobs"] else None,
    )
