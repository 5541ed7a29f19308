"""Files and batch jobs of the test server, kept in memory."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

Complete = Callable[[Mapping[str, Any]], tuple[int, dict[str, Any]]]
Refuse = Callable[[web.Request], web.Response | None]


class BatchStore:
    """`/v1/files` and `/v1/batches`. A job is done after it was asked for `polls` times."""

    def __init__(self, complete: Complete, *, polls: int) -> None:
        self.complete, self.polls = complete, polls
        self.end = "completed"  # or "failed" (nothing done), or "expired" (the first half done)
        self.files: dict[str, bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, int] = {}
        self.created = self.lines = self.downloads = 0
        self.room: int | None = None  # for lines of a job, in place of a provider's room for tokens
        self.fail_create: list[int] = []  # statuses of the next creations; 0: create, then cut
        self.fail_upload: list[int] = []  # statuses of the next uploads; 200: a web page
        self.fail_list: list[int] = []  # statuses of the next lists of jobs; 200: the list lags and is empty
        self.fail_look: list[int] = []  # statuses of the next looks at a job or downloads of a file

    def add_routes(self, app: web.Application, refuse: Refuse) -> None:
        """Add the pages; `refuse` answers requests whose key is wrong."""

        def guarded(handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
            async def handle(request: web.Request) -> web.StreamResponse:
                return refuse(request) or await handler(request)

            return handle

        app.router.add_post("/v1/files", guarded(self._upload))
        app.router.add_get("/v1/files/{id}/content", guarded(self._content))
        app.router.add_post("/v1/batches", guarded(self._create))
        app.router.add_get("/v1/batches", guarded(self._list))
        app.router.add_get("/v1/batches/{id}", guarded(self._poll))

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self.fail_upload:
            return web.Response(text="<html>", status=self.fail_upload.pop(0), content_type="text/html")
        upload = form["file"]
        assert isinstance(upload, web.FileField)
        content = upload.file.read()
        about = {"id": self._store(content), "object": "file", "bytes": len(content), "created_at": 0}
        about |= {"filename": "batch.jsonl", "purpose": str(form["purpose"]), "status": "processed"}
        return web.json_response(about)

    def _store(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def _out(self) -> web.Response | None:
        if not self.fail_look:
            return None
        return web.json_response({"error": {"message": "not now"}}, status=self.fail_look.pop(0))

    async def _content(self, request: web.Request) -> web.Response:
        if (out := self._out()) is not None:
            return out
        self.downloads += 1
        content = self.files.get(request.match_info["id"])
        if content is None:
            return web.json_response({"error": {"message": "no such file"}}, status=404)
        return web.Response(body=content, content_type="application/octet-stream")

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        status = self.fail_create.pop(0) if self.fail_create else 200
        if status >= 400:
            return web.json_response({"error": {"message": "not now"}}, status=status)
        name = f"batch_{self.created}"
        self.created += 1
        count = len(self.files[asked["input_file_id"]].splitlines())
        self.jobs[name] = {
            "id": name,
            "object": "batch",
            "status": "in_progress",
            "created_at": self.created,
            **{field: asked[field] for field in ("endpoint", "input_file_id", "completion_window")},
            **dict.fromkeys(("output_file_id", "error_file_id", "errors")),
            "metadata": asked.get("metadata"),
            "request_counts": {"total": count, "completed": 0, "failed": 0},
        }
        self.asked[name] = 0
        if status == 0:
            request.transport.abort()
        return web.json_response(self.jobs[name])

    async def _list(self, request: web.Request) -> web.Response:
        status = self.fail_list.pop(0) if self.fail_list else None
        if status not in (None, 200):
            return web.json_response({"error": {"message": "not now"}}, status=status)
        newest_first = [] if status else list(reversed(self.jobs.values()))
        after, limit = request.query.get("after"), int(request.query.get("limit", "20"))
        if after is not None:
            ids = [job["id"] for job in newest_first]
            newest_first = newest_first[ids.index(after) + 1 :]
        page = newest_first[:limit]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        return web.json_response(
            {"object": "list", "data": page, "has_more": len(newest_first) > limit, **ends}
        )

    async def _poll(self, request: web.Request) -> web.Response:
        if (out := self._out()) is not None:
            return out
        name = request.match_info["id"]
        job = self.jobs.get(name)
        if job is None:
            return web.json_response({"error": {"message": "no such batch"}}, status=404)
        self.asked[name] += 1
        if job["status"] == "in_progress" and self.asked[name] >= self.polls:
            self._finish(job)
        return web.json_response(job)

    def _finish(self, job: dict[str, Any]) -> None:
        full = self.room is not None and job["request_counts"]["total"] > self.room
        job["status"] = "failed" if full else self.end
        if job["status"] == "failed":
            error = {"code": "invalid_file", "message": "line 1 is bad"}
            if full:
                message = (
                    "Enqueued token limit reached for m in organization org-x. Limit: 90,000 enqueued tokens."
                )
                error = {"code": "token_limit_exceeded", "message": message}
            job["errors"] = {"object": "list", "data": [error]}
            return
        lines = [json.loads(line) for line in self.files[job["input_file_id"]].splitlines()]
        due = lines if self.end == "completed" else lines[: len(lines) // 2]
        done: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for line in due:
            status, body = self.complete(line["body"])
            response = {"status_code": status, "request_id": "r", "body": body}
            (done if status == 200 else failed).append(
                {"id": "l", "custom_id": line["custom_id"], "response": response, "error": None}
            )
        for line in lines[len(due) :]:
            error = {"code": "batch_expired", "message": "not done in time"}
            failed.append({"id": "l", "custom_id": line["custom_id"], "response": None, "error": error})
        self.lines += len(done)
        job["request_counts"] = {"total": len(lines), "completed": len(done), "failed": len(failed)}
        job["output_file_id"] = self._store(_jsonl(done)) if done else None
        job["error_file_id"] = self._store(_jsonl(failed)) if failed else None


def _jsonl(lines: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()
