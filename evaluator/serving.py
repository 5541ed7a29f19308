"""The grading server: routes, limits and access control."""

import base64
import binascii
import hmac
import json
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Literal, TypeVar

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
)

from evaluator.grading import AnswerKind, Grade, GradeCase, GradeValue
from evaluator.grading.extraction import LONGEST_RESPONSE
from evaluator.grading.grader import Desk
from service.errors import InputError
from service.hashing import whole_characters
from service.stopping import run_until_signal

_PROBLEMS_NAMED = 5
_BODIES = 8
"""All bodies together may have this many times the bytes of one."""
_HEADERS = {413: {"connection": "close"}, 429: {"retry-after": "1"}}
"""Of replies to what is too large, and to what has no room now."""
_KEEP_ALIVE_S, _GRACE_S = 30, 10
_NO_PROMPT = Grade(GradeValue.UNKNOWN, None, "prompt not in query")
_UNSAID = (
    "this route returns numbers. Set the reward for unknown grades: ?unknown_reward=NUMBER in the address, "
    "or --unknown-reward of `tagrpo eval serve`."
)
_NO_TOKEN = "a token is required: send Authorization: Bearer TOKEN, or http://tagrpo:TOKEN@HOST:PORT."
_SPECIAL = re.compile(
    r"(?:<\|[^<>|\s]{1,40}\|>|<｜[^<>｜\s]{1,40}｜>|</s>|<eos>|<pad>|<end_of_turn>|<turn\|>)\Z"
)
_LONGEST_SPECIAL = 44
_TAIL = 200
"""Characters of a prompt's end by which it is found in a query, blanks aside."""
_BEFORE = 1_000
"""Characters that a query may have before and inside its prompt, beyond twice the prompt's own."""

Body = TypeVar("Body", bound=BaseModel)


def _gold(value: Any) -> Any:
    """Return a gold as text: JSON data may have a number; an empty one is unknown."""
    if value is None:
        return ""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Gold = Annotated[str, BeforeValidator(_gold)]


class CaseBody(BaseModel):
    """A response to grade; only its end is read."""

    model_config = ConfigDict(extra="forbid")

    response: Annotated[str, AfterValidator(lambda text: text[-LONGEST_RESPONSE:])]
    gold: Gold = Field(description="gold answer, with or without a box")
    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = Field(None, description="numeric tolerance, such as 1e-2 or 1%")
    boxed_only: bool = Field(False, description="whether only boxed answers count")


class Batch(BaseModel):
    """Responses to grade, one or many."""

    model_config = ConfigDict(extra="forbid")

    cases: list[CaseBody] = Field(min_length=1)


class OpenRlhfBody(BaseModel):
    """What OpenRLHF's `--reward.remote_url` posts: each query is prompt and response in one text."""

    query: list[str] = Field(min_length=1)
    prompts: list[str]
    labels: list[Gold]


class GymBody(BaseModel):
    """What is read of NeMo Gym's `/verify`; all else is sent back as it came."""

    response: dict[str, Any]
    expected_answer: Gold
    answer_kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None


class TrainerSettings(BaseModel):
    """What the address of a request says to a route that returns numbers."""

    answers: Literal["all", "boxed"]
    unknown_reward: FiniteFloat | None


def grading_app(
    desk: Desk,
    *,
    most_cases: int,
    most_body_bytes: int,
    unknown_reward: float | None,
    boxed_only: bool,
    token: str | None,
) -> FastAPI:
    """Return the server: `/grade`, `/openrlhf`, `/verify`, `/health`, `/docs`.

    Args:
        most_cases: of all requests in flight.
        most_body_bytes: of one body.
        unknown_reward, boxed_only: of the trainers' routes, unless the address of a request states them.
        token: None admits everybody.
    """

    app = FastAPI(title="tagrpo grader", version=version("tagrpo"))
    in_flight = {"cases": 0, "bytes": 0}

    async def grade_all(cases: Sequence[GradeCase]) -> list[Grade]:
        if len(cases) > most_cases:
            raise HTTPException(413, f"{len(cases):,} cases exceed the maximum queue size ({most_cases:,}).")
        if in_flight["cases"] + len(cases) > most_cases:
            raise HTTPException(429, f"{in_flight['cases']:,} cases are waiting. Try again later.")
        in_flight["cases"] += len(cases)
        try:
            return await desk.grade(cases)
        finally:
            in_flight["cases"] -= len(cases)

    def add_route(
        path: str, model: type[Body], answer: Callable[[Request, Body, Any], Awaitable[Any]]
    ) -> None:
        """Add a POST route that reads its body within the limits and answers errors in one line of JSON.

        FastAPI would read a body whole, whatever its size, and refuse all of it for one broken character.
        `answer` gets the body as the model has it, and as it came.
        """

        async def answered(request: Request) -> Response:
            data = bytearray()
            try:
                async for part in request.stream():
                    if len(data) + len(part) > most_body_bytes:
                        raise HTTPException(
                            413, f"the body has more than {most_body_bytes:,} bytes. Send fewer cases."
                        )
                    if in_flight["bytes"] + len(part) > _BODIES * most_body_bytes:
                        raise HTTPException(
                            429, f"{in_flight['bytes']:,} bytes are in flight. Try again later."
                        )
                    in_flight["bytes"] += len(part)
                    data += part
                body = _read_json(data)
                return _json(200, await answer(request, _validated(model, body), body))
            except HTTPException as error:
                return _json(error.status_code, {"error": error.detail}, _HEADERS.get(error.status_code))
            except InputError as error:
                return _json(422, {"error": str(error)})
            finally:
                in_flight["bytes"] -= len(data)

        content = {"application/json": {"schema": model.model_json_schema()}}
        errors = {413: "too large", 422: "description of the error", 429: "server busy; see Retry-After"}
        app.post(
            path,
            summary=(model.__doc__ or "").strip(),
            openapi_extra={"requestBody": {"required": True, "content": content}},
            responses={code: {"description": words} for code, words in errors.items()},
        )(answered)

    def trainer_settings(request: Request) -> tuple[float, bool]:
        """Return the reward of an unknown grade, and whether only boxed answers count."""
        answers = "boxed" if boxed_only else "all"
        usual = {"answers": answers, "unknown_reward": unknown_reward}
        settings = _validated(TrainerSettings, {**usual, **request.query_params})
        if settings.unknown_reward is None:
            raise InputError(_UNSAID)
        return settings.unknown_reward, settings.answers == "boxed"

    async def grade(_request: Request, batch: Batch, _body: Any) -> Any:
        cases = [GradeCase(**dict(case)) for case in batch.cases]
        return {"grades": list(map(_reply, await grade_all(cases))), "grader": desk.grader.version}

    async def openrlhf(request: Request, sent: OpenRlhfBody, _body: Any) -> Any:
        unknown, boxed = trainer_settings(request)
        if not len(sent.query) == len(sent.prompts) == len(sent.labels):
            sizes = f"{len(sent.query)} queries, {len(sent.prompts)} prompts, {len(sent.labels)} labels"
            raise InputError(f"{sizes}: send the same number of each.")
        texts = [response_of(query, prompt) for query, prompt in zip(sent.query, sent.prompts, strict=True)]
        cases = [
            GradeCase(text[-LONGEST_RESPONSE:], label, boxed_only=boxed)
            for text, label in zip(texts, sent.labels, strict=True)
            if text is not None
        ]
        graded = iter(await grade_all(cases))
        grades = [_NO_PROMPT if text is None else next(graded) for text in texts]
        rewards = [_reward(each, unknown) for each in grades]
        marks = [float(each.value is GradeValue.UNKNOWN) for each in grades]
        return {"rewards": rewards, "scores": rewards, "extra_logs": {"unknown": marks}}

    async def verify(request: Request, sent: GymBody, body: Any) -> Any:
        unknown, boxed = trainer_settings(request)
        text = text_of(sent.response)[-LONGEST_RESPONSE:]
        case = GradeCase(text, sent.expected_answer, sent.answer_kind, sent.tolerance, boxed)
        (given,) = await grade_all([case])
        # Newer releases of NeMo Gym leave out samples with `mask_sample`.
        masked = given.value is GradeValue.UNKNOWN
        reply: dict[str, Any] = {"reward": _reward(given, unknown), "mask_sample": masked}
        if masked:
            reply |= {"failure_kind": "verifier_error", "failure_reason": given.reason}
        return {**body, **reply, "grade": _reply(given)}

    add_route("/grade", Batch, grade)
    add_route("/openrlhf", OpenRlhfBody, openrlhf)
    add_route("/verify", GymBody, verify)

    @app.post("/seed_session", summary="NeMo Gym's agents call this first; it does nothing")
    async def seed_session() -> dict[str, str]:
        return {}

    @app.get("/health", summary="Grader version and number of cases in flight; needs no token")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "grader": desk.grader.version, "cases_waiting": in_flight["cases"]}

    @app.middleware("http")
    async def ask_for_token(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if token is None or request.url.path == "/health" or _has_token(request, token):
            return await call_next(request)
        return _json(401, {"error": _NO_TOKEN}, {"www-authenticate": "Basic"})

    return app


def serve(listening: socket.socket, app: FastAPI, desk: Desk, ready: Callable[[], None]) -> None:
    """Answer requests until Ctrl-C or SIGTERM; then answer those in flight, close the grader and return."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(desk.deadline_s) + _GRACE_S,
    )
    try:
        run_until_signal(uvicorn.Server(config), listening, ready)
    finally:
        desk.close()  # also after a second Ctrl-C


def _has_token(request: Request, token: str) -> bool:
    """Return whether a request has the token: as Bearer, or as the password of an address (Basic)."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    given = credentials.encode()
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    return hmac.compare_digest(given.strip(), token.encode())


def _validated(model: type[Body], body: Any) -> Body:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        words = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:_PROBLEMS_NAMED]]
        more = len(problems) - len(words)
        raise InputError("; ".join(words) + (f"; and {more} more" if more else "") + ".") from error


def _read_json(body: bytearray) -> Any:
    """Return the JSON of a body.

    Bytes that are not UTF-8 and halves of surrogate pairs are replaced: one broken response must not keep the
    others of its batch from being graded.
    """
    try:
        sent = json.loads(body.decode("utf-8", "replace"))
        return json.loads(whole_characters(json.dumps(sent, ensure_ascii=False)))
    except RecursionError as error:
        raise InputError("the body is nested too deeply.") from error
    except ValueError as error:
        raise InputError(f"the body is not JSON ({error}).") from error


def _json(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Response:
    # A trainer's body may contain NaN, and is sent back as it came.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, headers, media_type="application/json")


def _reply(grade: Grade) -> dict[str, Any]:
    return {
        "value": grade.value.value,
        "answer": grade.extracted,
        "source": grade.source,
        "reason": grade.reason,
    }


def _reward(grade: Grade, unknown: float) -> float:
    return unknown if grade.value is GradeValue.UNKNOWN else float(grade.value is GradeValue.CORRECT)


def response_of(query: str, prompt: str) -> str | None:
    """Return the response in a query of OpenRLHF, None if it does not contain the prompt.

    The query is decoded from tokens: a token of its own may come before the prompt, blanks may differ, and
    the beginning of a long prompt may be cut off. Special tokens at the end are no part of the response.
    """
    if query.startswith(prompt):
        start = len(prompt)
    else:
        # Behind the prompt a response may be as long as it likes: it is not looked at.
        beginning = query[: 2 * len(prompt) + _BEFORE]
        places = [place for place, char in enumerate(beginning) if not char.isspace()]
        squeezed = "".join(query[place] for place in places)
        tail = "".join(prompt.split())[-_TAIL:]
        at = squeezed.find(tail)
        if not tail or at < 0:
            return None
        start = places[at + len(tail) - 1] + 1
    return _without_special(query[start:])


def _without_special(text: str) -> str:
    """Return a text without special tokens at its end and the blanks around them, in time linear in it."""
    end = len(text)
    while True:
        last = end
        while last and text[last - 1].isspace():
            last -= 1
        token = _SPECIAL.search(text, max(0, last - _LONGEST_SPECIAL), last)
        if token is None:
            return text if end == len(text) else text[:last]
        end = token.start()


def text_of(response: Mapping[str, Any]) -> str:
    """Return the text of the messages in a response of the Responses API; reasoning and calls are none."""
    return "".join(
        str(part.get("text") or "")
        for item in _dicts(response.get("output"))
        if item.get("type") == "message"
        for part in _dicts(item.get("content"))
        if part.get("type") == "output_text"
    )


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
