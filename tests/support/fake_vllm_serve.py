"""A program that stands in for `vllm serve`: it answers with what it was sent, and can fail on demand.

`FAKE_VLLM` names the failure: `never` does not become ready, `dies` ends before it is ready, `crashes` ends
at the first completion. Like vLLM it has a process for its engine; it prints the ids of both.
"""

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

METRICS = """# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 40.0
vllm:generation_tokens_total{engine="1",model_name="m"} 2.0
vllm:generation_tokens_created{engine="0",model_name="m"} 9e9
"""
ENGINE = "import time; time.sleep(300)"


def option(name: str) -> str:
    """Return the value of an option of the command line, given as `--name=value`."""
    return next(word.partition("=")[2] for word in sys.argv if word.startswith(f"--{name}="))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pages: dict[str, Any] = {
            "/health": "",
            "/metrics": METRICS,
            "/version": {"version": "0.31.0"},
            "/v1/models": {"data": [{"id": option("served-model-name"), "max_model_len": 100}]},
        }
        self.reply(pages[self.path])

    def do_POST(self) -> None:
        if os.environ.get("FAKE_VLLM") == "crashes":
            print("RuntimeError: CUDA error: an illegal memory access", flush=True)
            os._exit(7)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps({"path": self.path, **body})
        choice = {"message": {"content": text}} if "messages" in body else {"text": text}
        self.reply({"choices": [{"index": 0, "finish_reason": "stop", **choice}], "usage": {}})

    def reply(self, page: Any) -> None:
        data = (page if isinstance(page, str) else json.dumps(page)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    print(json.dumps(sys.argv[1:]), flush=True)
    print("processes", os.getpid(), subprocess.Popen([sys.executable, "-c", ENGINE]).pid, flush=True)
    failure = os.environ.get("FAKE_VLLM")
    if failure == "dies":
        print("ValueError: No available memory for the cache blocks", flush=True)
        sys.exit(3)
    if failure == "never":
        print("still loading", flush=True)
        time.sleep(300)
    ThreadingHTTPServer(("127.0.0.1", int(option("port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()
