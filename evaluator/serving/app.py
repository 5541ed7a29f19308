"""The routes of the grading server."""

import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from evaluator.grading import Grade, GradeCase, GradeValue
from evaluator.grading.extraction import LONGEST_RESPONSE
from evaluator.grading.types import Answers
from evaluator.serving.admission import RETRY_AFTER_S, Entry, Queue, QueueFullError, TooLargeError
from evaluator.serving.bodies import (
    Batch,
    BatchReply,
    GymBody,
    OpenRlhfBody,
    OpenRlhfReply,
    read_body,
    read_json,
)
from evaluator.serving.desk import Desk
from evaluator.serving.door import Door
from evaluator.serving.metrics import CONTENT_TYPE_LATEST, Metrics
from evaluator.serving.trainers import response_of, text_of
from service.errors import InputError

_NO_PROMPT = Grade(GradeValue.UNKNOWN, None, "prompt not in query")
_UNSAID = (
    "this route answers with numbers. Give the reward of an unknown grade, by ?unknown_reward=NUMBER in the "
    "address or --unknown-reward of `tagrpo grade serve`."
)


@dataclass(frozen=True)
class Rewards:
    """What the routes of trainers do where the address does not say it.

    Attributes:
        unknown: the reward of a grade that is unknown; None refuses requests that do not say it.
        answers: which answers count.
    """

    unknown: float | None = None
    answers: Answers = "boxed"

    def with_query(self, request: Request) -> "Rewards":
        """Return them as the address of a request wants them.

        Raises:
            InputError: it asks for what there is not, or nobody said what unknown is worth.
        """
        query = request.query_params
        unknown = self.unknown if "unknown_reward" not in query else _number(query["unknown_reward"])
        answers = query.get("answers", self.answers)
        if unknown is None:
            raise InputError(_UNSAID)
        if answers not in ("all", "boxed"):
            raise InputError(f"answers={answers}: give all or boxed.")
        return Rewards(unknown, cast(Answers, answers))

    def of(self, grade: Grade) -> float:
        """Return the reward of a grade."""
        if grade.value is GradeValue.UNKNOWN and self.unknown is not None:
            return self.unknown
        return float(grade.value is GradeValue.CORRECT)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"unknown_reward={text}: give a number.")
    return number


def grading_app(
    desk: Desk,
    queue: Queue,
    rewards: Rewards,
    token: str | None = None,
    ready: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the server: `/grade`, `/openrlhf`, `/verify`, `/health`, `/metrics`, `/docs`.

    `ready` is called when it is about to take requests.
    """

    @asynccontextmanager
    async def started(_app: FastAPI) -> AsyncIterator[None]:
        ready()
        yield

    app = FastAPI(title="tagrpo grader", version=version("tagrpo"), lifespan=started)
    metrics = Metrics(queue)

    async def graded(route: str, entry: Entry, cases: Sequence[GradeCase]) -> list[Grade]:
        entry.add_cases(len(cases))
        grades = await desk.grade(cases)
        metrics.graded(route, grades)
        return grades

    async def grade(request: Request, body: bytes, entry: Entry) -> Any:
        batch = read_body(Batch, body)
        grades = await graded("/grade", entry, [case.to_grade() for case in batch.cases])
        return {"grades": [_reply(grade) for grade in grades], "grader": desk.grader.version}

    async def openrlhf(request: Request, body: bytes, entry: Entry) -> Any:
        wanted = rewards.with_query(request)
        sent = read_body(OpenRlhfBody, body)
        if not len(sent.query) == len(sent.prompts) == len(sent.labels):
            sizes = f"{len(sent.query)} queries, {len(sent.prompts)} prompts, {len(sent.labels)} labels"
            raise InputError(f"{sizes}: send as many of each.")
        texts = [response_of(query, prompt) for query, prompt in zip(sent.query, sent.prompts, strict=True)]
        cases = [
            GradeCase(text[-LONGEST_RESPONSE:], label, boxed_only=wanted.answers == "boxed")
            for text, label in zip(texts, sent.labels, strict=True)
            if text is not None
        ]
        of_cases = iter(await graded("/openrlhf", entry, cases))
        missing = [_NO_PROMPT for text in texts if text is None]
        metrics.graded("/openrlhf", missing)
        grades = [_NO_PROMPT if text is None else next(of_cases) for text in texts]
        numbers = [wanted.of(each) for each in grades]
        unknown = [float(each.value is GradeValue.UNKNOWN) for each in grades]
        return {"rewards": numbers, "scores": numbers, "extra_logs": {"unknown": unknown}}

    async def verify(request: Request, body: bytes, entry: Entry) -> Any:
        wanted = rewards.with_query(request)
        sent = read_body(GymBody, body)
        case = GradeCase(
            text_of(sent.response)[-LONGEST_RESPONSE:],
            sent.expected_answer,
            sent.answer_kind,
            sent.tolerance,
            wanted.answers == "boxed",
        )
        (verdict,) = await graded("/verify", entry, [case])
        return {**read_json(body), **_gym_reply(verdict, wanted.of(verdict))}

    add_route(app, queue, "/grade", grade, Batch, BatchReply)
    add_route(app, queue, "/openrlhf", openrlhf, OpenRlhfBody, OpenRlhfReply)
    add_route(app, queue, "/verify", verify, GymBody, None)

    @app.post("/seed_session", summary="Called first by NeMo Gym's agents: nothing to do")
    async def seed_session() -> dict[str, str]:
        return {}

    @app.get("/health", summary="Grader version and number of cases in flight")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "grader": desk.grader.version, "cases_waiting": queue.cases}

    @app.get("/metrics", summary="Counters for Prometheus")
    async def counts() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    routes = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(Door, token=token, metrics=metrics, routes=routes)
    return app


def add_route(
    app: FastAPI,
    queue: Queue,
    path: str,
    answer: Callable[[Request, bytes, Entry], Awaitable[Any]],
    body: type[BaseModel],
    reply: type[BaseModel] | None,
) -> None:
    """Add a POST route: the body is taken in within the queue, errors become one line of JSON.

    FastAPI would read a body whole, whatever its size, and refuse all of it for one broken character.
    """

    async def answered(request: Request) -> Response:
        with queue.entry() as entry:
            try:
                return _json(200, await answer(request, await _receive(request, entry), entry))
            except QueueFullError as error:
                return _json(429, {"error": str(error)}, {"retry-after": str(RETRY_AFTER_S)})
            except TooLargeError as error:
                return _json(413, {"error": str(error)}, {"connection": "close"})
            except InputError as error:
                return _json(422, {"error": str(error)})

    content = {"application/json": {"schema": body.model_json_schema()}}
    errors = {413: "too large", 422: "description of the error", 429: "no room now; see Retry-After"}
    responses: dict[int | str, dict[str, Any]] = {
        **{code: {"description": words} for code, words in errors.items()},
        200: {"model": reply} if reply else {"description": "the body, with its reward"},
    }
    app.post(
        path,
        summary=(body.__doc__ or "").strip(),
        openapi_extra={"requestBody": {"required": True, "content": content}},
        responses=responses,
    )(answered)


async def _receive(request: Request, entry: Entry) -> bytes:
    body = bytearray()
    async for part in request.stream():
        entry.add_bytes(len(part))
        body += part
    return bytes(body)


def _json(status: int, content: Any, headers: dict[str, str] | None = None) -> Response:
    # What a trainer sent may hold NaN, and is sent back as it came.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, headers, media_type="application/json")


def _reply(grade: Grade) -> dict[str, Any]:
    return {
        "value": grade.value.value,
        "answer": grade.extracted,
        "source": grade.source,
        "reason": grade.reason,
    }


def _gym_reply(grade: Grade, reward: float) -> dict[str, Any]:
    """Return what is added to a NeMo Gym body; a sample with `mask_sample` is left out by newer releases."""
    unknown = grade.value is GradeValue.UNKNOWN
    failure = {"failure_kind": "verifier_error", "failure_reason": grade.reason} if unknown else {}
    return {"reward": reward, "mask_sample": unknown, **failure, "grade": _reply(grade)}
