"""The real vLLM, in its build for CPUs, through the command line: `vllm serve` of tagrpo and of the user."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from forked import Forked
from sqlalchemy import select
from tiny_model import save_tiny_model
from vllm_runs import DTYPE, survivors, use_cpu_build, vllm_processes
from world_runs import rows

from service.asks.request import read_reply
from service.asks.tables import AskBodyRow
from service.database import Database

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

START_S = 420.0
"""It starts in half a minute on two quiet cores."""
_END_S = 20.0
PROBLEMS, N, AT_ONCE = 16, 32, 32
REQUESTS = PROBLEMS * N // 2
"""Eight times `AT_ONCE`, so that an interrupted run has requests left to send."""
SAMPLING = ("--n", str(N), "max_tokens=40", "samples_per_request=2", f"max_concurrency={AT_ONCE}")
CONTEXT = 8192
"""Room for the instructions to rephrase, with one token per letter."""
SERVED = "hosted_vllm/tiny"
TEXTS = (
    "SELECT r.position, s.ordinal, t.text FROM samples s JOIN run_problems r ON r.id = s.run_problem_id "
    "JOIN sample_texts t ON t.sample_id = s.id ORDER BY 1, 2"
)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    use_cpu_build()
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", heads=2, context=CONTEXT)


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    """Serve the model under the name of its folder; give the URL (`.../v1`)."""
    log = tmp_path_factory.mktemp("server") / "log"
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    address = ("--host", "127.0.0.1", "--port", str(port), "--served-model-name", model.name)
    call = [Path(sys.executable).with_name("vllm"), "serve", str(model), *DTYPE, *address]
    with log.open("w") as written:
        process = subprocess.Popen(call, stdout=written, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while not _answers(f"http://127.0.0.1:{port}/health"):
            said = log.read_text(errors="replace")[-4000:]
            assert process.poll() is None, f"vllm serve ended ({process.poll()}):\n{said}"
            assert time.monotonic() < deadline, f"vllm serve is not up:\n{said}"
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def write_problems(path: str, *questions: str) -> None:
    lines = [json.dumps({"question": each, "answer": str(place)}) for place, each in enumerate(questions, 1)]
    Path(path).write_text("\n".join(lines), encoding="utf-8")


def test_an_interrupted_run_is_completed_with_the_texts_that_another_server_draws(cli, model, server):
    write_problems("sums.jsonl", *(f"What is {place} + 1?" for place in range(PROBLEMS)))
    run = ("eval", "run", "sums.jsonl", *SAMPLING)
    started = (*run, "--db", "started.db", "--model", model, "sampler=vllm", "dtype=float32")
    Database.open("started.db").close()
    process = Forked(*started)
    answered_asks = "SELECT count(*) FROM asks WHERE state = 'answered'"
    while rows("started.db", answered_asks) == [(0,)] and process.poll() is None:
        time.sleep(0.05)
    engines = vllm_processes(process.pid)
    code, out, errors = process.end(signal.SIGINT)
    assert (code, out) == (130, ""), errors
    assert "interrupted; run the same command again" in errors
    assert len(engines) >= 2
    assert survivors(engines) == []
    assert rows("started.db", "SELECT state, error FROM asks WHERE state != 'answered'") == []
    ((answered,),) = rows("started.db", "SELECT count(*) FROM asks")
    assert 0 < answered < REQUESTS
    assert rows("started.db", "SELECT count(*) FROM samples") == [(2 * answered,)]

    before = vllm_processes(os.getpid())
    cli.ok(*started)
    assert vllm_processes(os.getpid()) == before
    assert rows("started.db", "SELECT count(*) FROM asks") == [(REQUESTS,)]
    cli.ok(*run, "--db", "served.db", "--model", SERVED, "--base-url", server)
    texts = rows("started.db", TEXTS)
    assert len({text for _, _, text in texts}) > 0.9 * PROBLEMS * N
    assert texts == rows("served.db", TEXTS)


def test_a_server_of_the_user_proposes_by_a_schema(cli, server):
    write_problems("few.jsonl", "Ada has 12 apples and buys 5 more. How many apples does Ada have now?")
    cli.ok("questions", "import", "few.jsonl", "--name", "few")
    done = cli(
        *("rephrase", "run", "few", "--name", "model", "--n", 1, "rounds=1"),
        *("--model", SERVED, "--base-url", server, "proposer.reply=json", "proposer.max_tokens=3000"),
    )
    assert done.code in (0, 3), done.err
    with Database.open("tagrpo.db", read_only=True) as database, database.read() as session:
        replies = [body for body in session.scalars(select(AskBodyRow.reply)) if body is not None]
    choices = [choice for reply in replies for choice in read_reply(reply).choices]
    whole = [
        json.loads(each.text)
        for each in choices
        if each.text.startswith("{") and each.finish_reason == "stop"
    ]
    assert whole, "random weights write no JSON of themselves"
    for candidates in whole:
        assert candidates.keys() == {"rephrasings"}
        assert candidates["rephrasings"]
        assert all(isinstance(candidate, str) for candidate in candidates["rephrasings"])


def test_what_a_server_refuses_is_final_or_stops_the_run(cli, server):
    write_problems("long.jsonl", "What is 1 + 1?", f"What is {'1 + ' * CONTEXT}1?")
    run = ("eval", "run", "long.jsonl", "--model", SERVED, "--base-url", server, "--n", 4)
    for _ in range(2):  # the refusal may come before any answer: only the next run can tell that it is final
        done = cli.warned(*run, "max_tokens=60")
    assert "4 samples permanently missing" in done.err
    assert rows("tagrpo.db", "SELECT count(*) FROM samples") == [(4,)]
    for maximum in (CONTEXT, CONTEXT + 1):
        done = cli(*run, "--name", f"maximum-{maximum}", f"max_tokens={maximum}")
        assert done.code != 0
        assert re.search("context length|max_model_len", done.err)  # the server's words
