"""The real verifiers over a published set: its commands, and the server and client that prime-rl runs."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from openai_faults import fault_sequence, no_faults
from openai_server import OpenAIServer
from runs import Proposed, add_run, open_empty

from evaluator.grading import grade
from rephraser.sets.export import export_set
from rephraser.sets.publish import publish
from service.errors import InputError
from trainer_adapter.record.reading import Record

pytestmark = pytest.mark.verifiers
HOSTILE = "\\boxed{9^{9^{9^{9}}}-1}"
LIMIT = {"time_limit_s": 1.0}  # a process has one grader, with one limit
ASKED = [
    ("Halve 8.", "4", ["Half of 8?", "What is 8 through 2?"]),
    ("Add 1 to 1.", "2", ["One and one?"]),
    ("Double 3.", "6", []),
]
SAID = {
    "Halve 8.": "\\boxed{4}",
    "Half of 8?": "\\boxed{\\frac{8}{2}}",
    "What is 8 through 2?": "The answer is 4.",
    "Add 1 to 1.": "\\boxed{3}",
    "One and one?": HOSTILE,
    "Double 3.": "\\boxed{6}",
}


def answer(messages: Sequence[Mapping[str, Any]], n: int, seed: int | None) -> list[str]:
    """Say what `SAID` has for the question in the last message."""
    return [SAID[messages[-1]["content"].partition("\n")[0]]] * n


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A set of three questions, with two neighbors, one, none; `bad.jsonl` has one more, of an empty gold."""
    folder = tmp_path_factory.mktemp("exported")
    for name, asked in (("set", ASKED), ("bad", [*ASKED, ("Nobody knows.", "\\boxed{}", [])])):
        with open_empty(folder / f"{name}.db") as db:
            add_run(db, "r", [(text, gold, [Proposed(each) for each in near]) for text, gold, near in asked])
            publish(db, name, run="r", n=2, min_distance=0)
            export_set(db, name, folder / f"{name}.jsonl", "jsonl")
    return folder


def listening(asked: list[str]) -> Callable[..., list[str]]:
    """Return an answer that notes what it was asked."""

    def listen(messages: Sequence[Mapping[str, Any]], n: int, seed: int | None) -> list[str]:
        asked.append(messages[-1]["content"])
        return answer(messages, n, seed)

    return listen


def evaluate(
    exported: Path, folder: Path, faults: Any = no_faults, **taskset: Any
) -> tuple[list[Any], list[str]]:
    """Return the episodes that verifiers' own runner writes, and what each answered request asked."""
    from verifiers.v1.cli.eval.runner import run_eval
    from verifiers.v1.configs.cli.eval import EvalConfig

    asked: list[str] = []

    async def both() -> list[Any]:
        async with OpenAIServer(answer=listening(asked), faults=faults) as server:
            source = {"id": "tagrpo", "source": str(exported / "set.jsonl"), "task": LIMIT}
            about = {"model": "policy", "client": {"base_url": server.url}, "select": {"limit": 2}}
            config = EvalConfig(
                env={"taskset": source | taskset}, **about, push=False, rich=None, output_dir=folder
            )
            return await run_eval(config)

    return asyncio.run(both()), asked


@pytest.fixture(scope="module")
def traces(exported, tmp_path_factory):
    """What `vf-eval` wrote, with two episodes a question and two responses a phrasing; and what it asked."""
    folder = tmp_path_factory.mktemp("evaluated")
    asked: list[str] = []

    async def both() -> tuple[int | None, str]:
        async with OpenAIServer(answer=listening(asked)) as server:
            process = await asyncio.create_subprocess_exec(
                *(str(Path(sys.executable).parent / "vf-eval"), "tagrpo", "-m", "policy"),
                *("--env.taskset.source", str(exported / "set.jsonl"), "--client.base-url", server.url),
                *("-r", "2", "--env.responses", "2", "--env.taskset.task.time-limit-s", "1"),
                *("--no-push", "--no-rich", "--run.name", "first"),
                cwd=folder,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            return process.returncode, output.decode()

    code, output = asyncio.run(both())
    assert code == 0, output
    return folder / "outputs" / "first" / "traces.jsonl", asked


def test_an_episode_holds_a_question_and_its_neighbors_with_the_grader_s_rewards(traces):
    path, asked = traces
    episodes = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(episodes) == 2 * len(ASKED)
    assert len(asked) == 2 * 2 * len(SAID)
    assert all("final answer inside \\boxed{}" in text for text in asked)
    golds = {text: gold for text, gold, _ in ASKED}
    for episode in episodes:
        question = episode["task"]["data"]["prompt"].partition("\n")[0]
        near = next(near for text, _, near in ASKED if text == question)
        assert episode["ok"]
        members = sorted(episode["traces"], key=lambda each: each["task"]["data"]["phrasing"])
        texts = [each["task"]["data"]["prompt"].partition("\n")[0] for each in members]
        assert sorted(texts) == sorted(text for text in (question, *near) for _ in range(2))
        assert texts[:2] == [question, question]
        for text, trace in zip(texts, members, strict=True):
            reply = trace["nodes"][-1]["message"]["content"]
            assert reply == SAID[text]
            known = "unknown" if reply == HOSTILE else grade(reply, golds[question], boxed_only=True).value
            rewards = {name: reward["score"] for name, reward in trace["rewards"].items()}
            assert rewards == ({} if known == "unknown" else {"correct": float(known == "correct")})
            assert trace["metrics"]["unknown"] == float(known == "unknown")
            assert trace["agent"]["trainable"] == (known != "unknown")


def test_the_mean_that_verifiers_prints_leaves_unknown_grades_out(traces):
    import verifiers.v1 as vf
    from rich.console import Console
    from verifiers.v1.cli.dashboard.eval import Progress, TraceStats
    from verifiers.v1.env import RunSlot

    lines = traces[0].read_text(encoding="utf-8").splitlines()
    slots = [RunSlot.finished(vf.WireEpisode.model_validate_json(line)) for line in lines]
    console = Console(width=160)
    with console.capture() as capture:
        stats = {trace.id: TraceStats(trace) for slot in slots for trace in slot.traces}
        console.print(Progress(slots, 0.0, stats))
    assert re.search(r"reward 0\.60\b", capture.get())  # 3 of 5 right, the sixth response has no grade


def test_what_it_drew_is_recorded_as_by_verl(traces, tmp_path):
    from trainer_adapter.verifiers import record_traces

    record_traces(traces[0], tmp_path / "record", "prime", episodes_a_step=2 * len(ASKED))
    record = Record(tmp_path / "record")
    [step] = record.counts().page_steps()
    assert (step.questions, step.responses, step.unknown) == (len(ASKED), 4 * len(SAID), 4)
    texts = {text: near for text, _, near in ASKED}
    for group in record.counts().page_groups():
        found = record.joint_group(1, group.question_id)
        asked = [str(column.prompt).partition("\n")[0] for column in found.columns]
        assert sorted(asked[1:]) == sorted(texts[asked[0]])
        for column, text in zip(found.columns, asked, strict=True):
            assert [record.rollout(one.id).response for one in column.rollouts] == [SAID[text]] * 4
            known = {"unknown": 0.0, "wrong": 0.0, "correct": 1.0}
            assert all(one.reward == known[one.grade] and one.tokens > 0 for one in column.rollouts)
    (tmp_path / "other.jsonl").write_text('{"traces": [{}]}\n')
    with pytest.raises(InputError, match=r"other\.jsonl:1: not an episode of this environment"):
        record_traces(tmp_path / "other.jsonl", tmp_path / "other", "x", episodes_a_step=1)


def test_the_page_s_script_counts_what_has_no_grade(traces):
    page = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text(encoding="utf-8")
    scripts = re.findall(r"^```python no-run\n(.*?)^```$", page, re.M | re.S)
    (script,) = [script for script in scripts if "have no grade" in script]
    folder = traces[0].parents[2]
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.stdout == "4.0 of 24 responses have no grade\n"


def test_the_first_neighbor_without_an_instruction_and_answers_outside_of_boxes(exported, tmp_path):
    task = {**LIMIT, "answers": "all"}
    episodes, asked = evaluate(exported, tmp_path, neighbors=1, instruction="", task=task)
    assert sorted(asked) == ["Add 1 to 1.", "Halve 8.", "One and one?", "What is 8 through 2?"]
    traces = [trace for episode in episodes for trace in episode.traces]
    rewards = {trace.nodes[0].message.content: trace.reward for trace in traces}
    assert (rewards["Halve 8."], rewards["What is 8 through 2?"], rewards["Add 1 to 1."]) == (1.0, 1.0, 0.0)


def test_a_refusal_for_now_is_asked_again_and_a_lasting_one_is_no_reward(exported, tmp_path):
    busy = fault_sequence("rate_limit", "unavailable")
    episodes, asked = evaluate(exported, tmp_path / "busy", busy, neighbors=0, instruction="")
    assert set(asked) == {"Add 1 to 1.", "Halve 8."}
    members = [trace for episode in episodes for trace in episode.traces]
    assert sorted(trace.reward for trace in members) == [0.0, 1.0]
    assert all(trace.ok and trace.num_turns == 1 for trace in members)
    refused = fault_sequence(*["context_length"] * 2)
    episodes, _ = evaluate(exported, tmp_path / "refused", refused, neighbors=0)
    members = [trace for episode in episodes for trace in episode.traces]
    assert [(trace.ok, trace.rewards) for trace in members] == [(False, {}), (False, {})]
    assert {trace.last_error.type for trace in members} == {"ProviderError"}
    assert all("maximum context length" in trace.last_error.message for trace in members)


def test_what_no_set_can_be_made_of_is_refused(exported):
    from trainer_adapter.verifiers import GradingConfig, NeighborTaskset, NeighborTasksetConfig

    def load(**settings: Any) -> list[Any]:
        return NeighborTaskset(NeighborTasksetConfig(id="tagrpo", **settings)).load()

    source = str(exported / "set.jsonl")
    with pytest.raises(InputError, match=r"the set is missing. Pass --env\.taskset\.source"):
        load()
    with pytest.raises(InputError, match="only the answer kind tolerance uses a tolerance"):
        load(source=source, task=GradingConfig(tolerance="1%"))
    with pytest.raises(InputError, match="its answer '4' is not a valid choice"):
        load(source=source, task=GradingConfig(answer_kind="choice"))
    assert [task.key for task in load(source=source)[0].phrasings()] == [
        f"{load(source=source)[0].data.id}{place}" for place in ("", "#1", "#2")
    ]


def test_prime_rl_s_way_through_server_and_wire_keeps_what_is_left_out(exported):
    """prime-rl loads the tasks, ships each one's data to an env server, and trains on what comes back."""
    import verifiers.v1 as vf
    from verifiers.v1.serve import EnvClient, EnvServer

    taskset = {"id": "me/tagrpo@1.0", "source": str(exported / "set.jsonl"), "task": LIMIT}
    config = vf.resolve_env_config({"taskset": taskset})
    assert type(config).__name__ == "NeighborEnvConfig"
    _, task, _ = vf.load_taskset(config.taskset)

    async def episodes() -> list[Any]:
        server = EnvServer(config, "tcp://127.0.0.1:0")
        serving = asyncio.create_task(server.run())
        client = EnvClient(server.address)
        try:
            async with OpenAIServer(answer=answer) as model:
                return [
                    await client.run(
                        task_data=task.data.model_dump(),
                        client=vf.EvalClientConfig(base_url=model.url),
                        model="policy",
                        sampling=vf.SamplingConfig(temperature=1.0),
                    )
                    for _ in range(2)
                ]
        finally:
            await client.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    for episode in asyncio.run(episodes()):
        assert episode.ok
        left = [(each.task.data.phrasing, each.agent.trainable, each.has_error) for each in episode.traces]
        assert left == [(0, True, False), (1, False, False)]
        assert [trace.reward for trace in episode.traces if trace.agent.trainable] == [0.0]
