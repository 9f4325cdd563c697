"""The real data, where it is at hand, and a small web server for downloads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the real files: `$STEADYGRAD_DATA`, or `shared/data` beside the repository."""
    folder = Path(os.environ.get("STEADYGRAD_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "music").is_dir() or not (folder / "ptb").is_dir():
        pytest.skip(f"no real data in {folder}: set STEADYGRAD_DATA to a folder that holds them")
    monkeypatch.setenv("STEADYGRAD_DATA", str(folder))
    return folder


@pytest.fixture
def empty_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder."""
    monkeypatch.setenv("STEADYGRAD_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


class Server:
    """A web server on 127.0.0.1 whose answers a test sets by path; `asked` records the paths requested."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                answer = site.answers.get(self.path)
                if answer:
                    answer(self)
                else:
                    self.send_error(404)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http.server_port}{path}"

    def serve(self, path: str, body: bytes, announced: int | None = None) -> str:
        """Answer `path` with `body`, announcing another length if told to; gives the address."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body) if announced is None else announced))
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer
        return self.url(path)

    def redirect(self, path: str, to: str) -> str:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", to)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        self.answers[path] = answer
        return self.url(path)

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    site = Server()
    yield site
    site.close()
