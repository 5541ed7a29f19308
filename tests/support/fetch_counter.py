"""A server that answers everything and remembers who asked: hostile text must never make a browser ask it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FetchCounter:
    """Use as a context manager; `url` is where it listens, `fetched` the paths that were asked for."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        fetched = self.fetched

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fetched.append(self.path)
                self.send_response(200)
                self.send_header("content-type", "image/gif")
                self.send_header("access-control-allow-origin", "*")
                self.end_headers()
                self.wfile.write(b"GIF89a")

            do_POST = do_HEAD = do_OPTIONS = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "FetchCounter":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
