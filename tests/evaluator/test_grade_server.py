"""`tagrpo eval serve`: real requests to a real server process."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.speed.grading_hostile import hostile_answers
from evaluator.serving import response_of

ROOT = Path(__file__).resolve().parents[2]
MAIN = "import sys; from ui.cli.app import main; sys.argv[0] = 'tagrpo'; main()"
TOKEN = "a-token-of-the-tests"
SLOW = r"\boxed{\int_0^\infty \frac{\sin(x^3+\ln(x+1))}{x^{\pi}+e^x} dx}"
"""Compared for far longer than any limit here."""


def start(*options: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server on a free port; return it and its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "eval", "serve", "--port", "0", "--workers", "1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    return process, process.stdout.readline()


def address(line: str) -> str:
    return next(word for word in line.split() if word.startswith("http://")).rstrip(";")


@pytest.fixture(scope="module")
def client():
    process, line = start("--deadline-s", "6", "--time-limit-s", "5", "--queue", "300", "--body-mb", "16")
    try:
        with httpx.Client(base_url=address(line), timeout=120) as client:
            hard = batch((r"\boxed{\sin(x)+\sin(x)}", r"2\sin(x)"))
            for _ in range(20):  # until the workers have started
                if grades(client.post("/grade", json=hard)) == [("correct", "symbolic")]:
                    break
            yield client
    finally:
        process.terminate()
        process.communicate(timeout=60)


def batch(*pairs: tuple[str, object], **settings: object) -> dict[str, object]:
    return {"cases": [{"response": response, "gold": gold, **settings} for response, gold in pairs]}


def grades(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 200, answer.text
    return [(grade["value"], grade["reason"]) for grade in answer.json()["grades"]]


@pytest.mark.slow
def test_a_batch_is_graded_in_order_with_answers_sources_and_reasons(client):
    hard = (r"\boxed{2\cos x}", r"\cos x+\cos x")
    pairs = [(r"so \boxed{\frac{2}{4}}", 0.5), hard, ("It is 7.", "8"), ("x", "")]
    answer = client.post("/grade", json=batch(*pairs)).json()
    assert answer["grades"] == [
        {"value": "correct", "answer": r"\frac{2}{4}", "source": "box", "reason": "numeric"},
        {"value": "correct", "answer": r"2\cos x", "source": "box", "reason": "symbolic"},
        {"value": "wrong", "answer": "7", "source": "last sentence", "reason": "different"},
        {"value": "unknown", "answer": "x", "source": "last sentence", "reason": "no answer"},
    ]
    broken = json.dumps(batch(("\\boxed{\ud83d\ude00\ud800}", "1"))).encode()  # a whole pair, and a half
    assert client.post("/grade", content=broken).json()["grades"][0]["answer"] == "\U0001f600\ufffd"
    assert answer["grader"].startswith("tagrpo-grader ")
    boxed = client.post("/grade", json=batch(("It is 8.", "8"), boxed_only=True))
    assert grades(boxed) == [("wrong", "no answer found")]
    off = client.post("/grade", json=batch((r"\boxed{3.1}", "3.14"), kind="tolerance", tolerance="0.1"))
    assert grades(off) == [("correct", "tolerance")]
    long = "x " * 15_000 + r"\boxed{\frac12}"  # read by a worker
    assert grades(client.post("/grade", json=batch((long, "0.5")))) == [("correct", "numeric")]


def test_openrlhf_gets_numbers_once_unknown_has_one(client):
    sent = {
        "query": [
            "<s> Q: 2+3?\nA: \\boxed{5}<|im_end|>",
            "Q\\boxed{6}</s>",
            "elsewhere \\boxed{7}",
            "Qso 8.",
        ],
        "prompts": ["Q: 2+3?\n A:", "Q", "Another prompt", "Q"],
        "labels": ["5", 5, "7", "8"],
    }
    refused = client.post("/openrlhf", json=sent)
    assert refused.status_code == 422
    assert "?unknown_reward=NUMBER" in refused.json()["error"]
    answer = client.post("/openrlhf?unknown_reward=-0.5", json=sent).json()
    rewards = [1.0, 0.0, -0.5, 0.0]
    unknown = {"unknown": [0.0, 0.0, 1.0, 0.0]}
    assert answer == {"rewards": rewards, "scores": rewards, "extra_logs": unknown}
    every = client.post("/openrlhf?unknown_reward=0&answers=all", json=sent).json()
    assert every["rewards"] == [1.0, 0.0, 0.0, 1.0]
    for address in ("/openrlhf?unknown_reward=nan", "/openrlhf?unknown_reward=0&answers=some"):
        assert client.post(address, json=sent).status_code == 422
    uneven = client.post("/openrlhf?unknown_reward=0", json={**sent, "labels": ["5"]})
    assert "4 queries, 4 prompts, 1 labels" in uneven.json()["error"]


def test_nemo_gym_gets_its_body_back_with_a_reward(client):
    def body(gold: str, *texts: str) -> dict[str, object]:
        message = {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}
        response = {"id": "r", "output": [{"type": "reasoning", "summary": [r"\boxed{1}"]}, message]}
        about = {"responses_create_params": {"input": []}, "row": 3}
        return about | {"response": response, "expected_answer": gold}

    assert client.post("/seed_session", json={"row": 3}).json() == {}
    assert client.post("/verify", json=body("5", "5")).status_code == 422
    right = client.post("/verify?unknown_reward=0", json=body("5", r"So \boxed", "{5}")).json()
    assert (right["reward"], right["mask_sample"], right["row"]) == (1.0, False, 3)
    assert right["response"]["id"] == "r"
    unknown = client.post("/verify?unknown_reward=0", json=body("", r"\boxed{5}")).json()
    assert (unknown["reward"], unknown["mask_sample"]) == (0.0, True)
    assert (unknown["failure_kind"], unknown["failure_reason"]) == ("verifier_error", "no answer")


def test_the_clients_of_the_page_work_as_they_stand_there(client):
    page = (ROOT / "docs" / "grade-server.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python no-run\n(.*?)^```", page, re.M | re.S)
    own = str(client.base_url).rstrip("/")
    plain, trl, verl = (block.replace("http://127.0.0.1:8600", own) for block in blocks)
    names: dict[str, Any] = {"pairs": [(r"\boxed{5}", "5"), (r"\boxed{5}", "6")]}
    exec(plain, names)
    assert [grade["value"] for grade in names["grades"]] == ["correct", "wrong"]
    exec(trl, names)
    texts = [[{"role": "assistant", "content": r"\boxed{5}"}], r"\boxed{5}", r"\boxed{5}"]
    rewards = names["reward"](prompts=["Q"] * 3, completions=texts, answer=["5", "6", ""])
    assert asyncio.run(rewards) == [1, 0, None]
    exec(verl, names)
    scored = asyncio.run(names["compute_score"]("math", r"\boxed{5}", "5", {}))
    assert scored == {"score": 1.0, "unknown": 0.0}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 422, "the body is not JSON"),
        (b'{"cases": []}', 422, "cases: List should have at least 1 item"),
        (b'{"cases": [{"response": "a"}]}', 422, "cases.0.gold: Field required"),
        (b'{"cases": [{"response": "a", "gold": "1", "kind": "k"}]}', 422, "cases.0.kind"),
        (b'{"cases": [{"response": "1", "gold": "1", "kind": "tolerance", "tolerance": "x"}]}', 422,
         "cases.0: tolerance 'x' is not"),
        (b'{"cases": [{"response": "a", "gold": "1", "golds": "1"}]}', 422, "cases.0.golds: Extra inputs"),
        (b"[" * 10_000, 422, "nested too deeply"),
        (b" " * 17_000_000, 413, "more than 16,000,000 bytes"),
        (json.dumps(batch(*[("a", "1")] * 301)).encode(), 413, "301 cases exceed the maximum queue size"),
    ],
)  # fmt: skip
def test_what_cannot_be_graded_is_refused_in_one_line(client, body, status, words):
    answer = client.post("/grade", content=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.slow
def test_hostile_answers_hold_up_nobody_and_get_a_reason(client):
    towers = ["9^{9^{9^9}}", "((((3!)!)!)!)!", r"\frac{1}{" * 10_000 + "x" + "}" * 10_000, "(" * 10_000]
    hostile = [rf"\boxed{{{answer}}}" for answer in (*towers, *hostile_answers()[-8:])]
    hostile += ["a " * 5_000_000, "a" * 30 + "!" * 200_000, "(" * 200_000, SLOW]
    began = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        attacks = [threads.submit(client.post, "/grade", json=batch((text, r"\ln 7"))) for text in hostile]
        times = []
        while not all(attack.done() for attack in attacks):
            asked = time.monotonic()
            answer = client.post("/grade", json=batch((r"\boxed{\frac12}", "0.5"), ("It is 7.", "8")))
            assert [value for value, _ in grades(answer)] == ["correct", "wrong"]
            times.append(time.monotonic() - asked)
    assert len(times) > 5
    assert max(times) < (time.monotonic() - began) / 2
    found = [grades(attack.result())[0] for attack in attacks]
    assert {value for value, _ in found} <= {"unknown", "wrong"}
    assert found[-1] == ("unknown", "timeout")
    assert all(reason for _, reason in found)


@pytest.mark.slow
def test_a_full_queue_says_when_to_come_again(client):
    many = batch(*[(SLOW.replace("x^3", f"x^{{{power}}}"), r"\ln 7") for power in range(3, 203)])
    held = threading.Thread(target=client.post, args=("/grade",), kwargs={"json": many})
    held.start()
    while client.get("/health").json()["cases_waiting"] < 200:
        pass
    refused = client.post("/grade", json=batch(*[("a", "1")] * 101))
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert grades(client.post("/grade", json=batch(*[(r"\boxed{1}", "1")] * 100)))[99] == ("correct", "exact")
    held.join()  # by the deadline, whatever is left is unknown
    assert client.get("/health").json()["cases_waiting"] == 0


@pytest.mark.slow
def test_a_token_is_asked_for_and_may_stand_in_the_address(tmp_path):
    process, line = start("--host", "0.0.0.0", "--unknown-reward", "0", TAGRPO_GRADE_TOKEN=TOKEN)
    try:
        assert TOKEN not in line
        url = address(line)
        assert httpx.get(f"{url}/health").status_code == 200
        sent = batch((r"\boxed{1}", "1"))
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic %"}):
            assert httpx.post(f"{url}/grade", json=sent, headers=headers).status_code == 401
        assert httpx.get(f"{url}/docs").status_code == 401
        assert httpx.post(f"{url}/grade", json=sent, headers={"Authorization": f"Bearer {TOKEN}"}).is_success
        by_address = url.replace("http://", f"http://tagrpo:{TOKEN}@")
        body = {"query": ["a"], "prompts": ["a"], "labels": ["1"]}
        assert httpx.post(f"{by_address}/openrlhf", json=body).json()["rewards"] == [0.0]
    finally:
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, TOKEN in out + error) == (0, False)


@pytest.mark.slow
def test_a_signal_lets_what_is_in_flight_be_answered():
    process, line = start("--deadline-s", "4", "--time-limit-s", "300")
    url = address(line)
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(httpx.post, f"{url}/grade", json=batch((SLOW, r"\ln 7")), timeout=120)
        while httpx.get(f"{url}/health").json()["cases_waiting"] == 0:
            pass
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
        assert grades(asking.result()) == [("unknown", "timeout")]
        assert (process.returncode, out, error.strip()) == (0, "", "ended")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "prompt", "response"),
    [
        ("<s>[INST] 1+1? [/INST] It is 2. </s> <pad> <pad>\n", "[INST] 1+1? [/INST]", " It is 2."),
        ("q a <|im_end|>\n", "q", " a"),
        ("q a  ", "q", " a  "),
        ("q of <|no token|>", "q", " of <|no token|>"),
        ("another question", "q1", None),
        ("q" + "</s> " * 300_000 + "x", "q", "</s> " * 300_000 + "x"),
        ("q" + "</s> " * 300_000, "q", ""),
        ("q" + " " * 3_000_000 + "x", "q", " " * 3_000_000 + "x"),
    ],
)
def test_a_response_is_what_follows_the_prompt_in_a_query(query, prompt, response):
    """Time grows with the length: the long ones take minutes where it grows with its square."""
    assert response_of(query, prompt) == response
