"""A web server that keeps what is posted to it, and answers as the test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """`status` is what it answers, `on_post` what it does before; `seconds_to_answer` how long it takes."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds_to_answer: float = 0.0
    on_post: Callable[[], None] = lambda: None
    posts: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def messages(self) -> list[Any]:
        return [json.loads(body) for _, body in self.posts]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A server on a free port of this machine, stopped at the end."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.posts.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            receiver.on_post()
            time.sleep(receiver.seconds_to_answer)
            self.send_response(receiver.status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            body = f"you posted to {self.path}".encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing to the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
