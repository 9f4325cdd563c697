"""A download arrives whole and verified, or leaves nothing and says why."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import sys
import threading
import time
import urllib.request
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from steadygrad.data import DataError, Source
from steadygrad.data import download as download_module
from steadygrad.data.download import _MirrorFault, _Redirects, download

BODY = bytes(range(256)) * 1000  # several blocks long


def source(*urls: str, body: bytes = BODY) -> Source:
    return Source("music/small.mat", len(body), hashlib.sha256(body).hexdigest(), urls)


def left_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


def test_a_download_puts_the_verified_bytes_at_the_target(server, tmp_path):
    target = tmp_path / "new" / "folder" / "small.mat"
    download(source(server.serve("/a", BODY)), target)
    assert target.read_bytes() == BODY
    assert left_in(tmp_path) == ["small.mat"]


def test_a_downloaded_file_has_the_permissions_of_any_new_file(server, tmp_path):
    download(source(server.serve("/a", BODY)), tmp_path / "small.mat")
    (tmp_path / "other").touch()
    assert (tmp_path / "small.mat").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_target_does_not_exist_before_the_last_byte_is_verified(server, tmp_path):
    half = len(BODY) // 2
    seen: list[str] = []

    def in_two_halves(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BODY)))
        handler.end_headers()
        handler.wfile.write(BODY[:half])
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not any(file.stat().st_size for file in tmp_path.iterdir()):
            time.sleep(0.005)
        seen.extend(left_in(tmp_path))
        handler.wfile.write(BODY[half:])

    server.answers["/slow"] = in_two_halves
    download(source(server.url("/slow")), tmp_path / "small.mat")
    assert len(seen) == 1
    assert seen[0].endswith(".part")
    assert left_in(tmp_path) == ["small.mat"]


def test_after_a_404_the_second_mirror_is_used(server, tmp_path):
    download(source(server.url("/gone"), server.serve("/b", BODY)), tmp_path / "small.mat")
    assert server.asked == ["/gone", "/b"]
    assert (tmp_path / "small.mat").read_bytes() == BODY


@pytest.mark.parametrize(
    ("body", "announced", "reason"),
    [
        pytest.param(BODY[:1000], len(BODY), "ends after 1,000 of 256,000 bytes", id="connection-cut"),
        pytest.param(BODY[:1000], None, "ends after 1,000 of 256,000 bytes", id="too-short"),
        pytest.param(BODY + b"!", None, "longer than 256,000 bytes", id="too-long"),
        pytest.param(b"!" + BODY[1:], None, "has sha256", id="altered"),
        pytest.param(b"", None, "ends after 0 of 256,000 bytes", id="empty"),
    ],
)
def test_a_wrong_body_is_refused_and_leaves_nothing(server, tmp_path, body, announced, reason):
    url = server.serve("/bad", body, announced)
    with pytest.raises(DataError, match=reason):
        download(source(url), tmp_path / "small.mat")
    assert left_in(tmp_path) == []


def test_a_wrong_body_is_replaced_by_a_right_one_from_the_next_mirror(server, tmp_path):
    bad, good = server.serve("/bad", b"!" + BODY[1:]), server.serve("/good", BODY)
    download(source(bad, good), tmp_path / "small.mat")
    assert (tmp_path / "small.mat").read_bytes() == BODY


def test_the_error_names_file_addresses_place_and_checksum(server, tmp_path):
    wanted = source(server.url("/one"), server.url("/two"))
    with pytest.raises(DataError) as caught:
        download(wanted, tmp_path / "small.mat")
    for part in (wanted.path, *wanted.urls, "HTTP 404", str(tmp_path / "small.mat"), wanted.sha256):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_network_is_one_sentence(tmp_path):
    with socket.socket() as free:  # a port where nothing listens
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match=r"cannot download music/small\.mat .*refused"):
        download(source(f"http://127.0.0.1:{port}/a"), tmp_path / "small.mat")
    assert left_in(tmp_path) == []


def test_a_silent_mirror_is_given_up_after_the_timeout(server, tmp_path, monkeypatch):
    released = threading.Event()
    server.answers["/silent"] = lambda handler: released.wait(10)
    monkeypatch.setattr(download_module, "TIMEOUT", 0.2)
    try:
        with pytest.raises(DataError, match="timed out"):
            download(source(server.url("/silent")), tmp_path / "small.mat")
    finally:
        released.set()


@pytest.mark.parametrize("url", ["http://example.org/a", "ftp://127.0.0.1/a", "file:///etc/hostname", "data:,a"])
def test_an_address_that_is_not_https_is_never_asked(tmp_path, url):
    with pytest.raises(DataError, match="only https"):
        download(source(url), tmp_path / "small.mat")


@pytest.mark.parametrize("to", ["http://example.org/a", "ftp://127.0.0.1/a", "file:///etc/hostname"])
def test_a_redirect_away_from_https_is_not_followed(server, tmp_path, to):
    with pytest.raises(DataError, match=r"redirects to|not allowed"):
        download(source(server.redirect("/away", to)), tmp_path / "small.mat")


def test_a_redirect_from_https_to_plain_http_is_refused_even_on_this_machine():
    asked = urllib.request.Request("https://example.org/a")
    answer = (io.BytesIO(), 302, "Found", HTTPMessage())
    with pytest.raises(_MirrorFault, match="only https"):
        _Redirects().redirect_request(asked, *answer, "http://127.0.0.1/a")
    followed = _Redirects().redirect_request(asked, *answer, "https://example.org/b")
    assert followed is not None
    assert followed.full_url == "https://example.org/b"


def test_a_redirect_to_an_allowed_address_is_followed(server, tmp_path):
    server.serve("/there", BODY)
    download(source(server.redirect("/here", server.url("/there"))), tmp_path / "small.mat")
    assert (tmp_path / "small.mat").read_bytes() == BODY


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full")
def test_a_full_disk_is_one_sentence_and_the_temporary_file_is_removed(server, tmp_path, monkeypatch):
    made: list[Path] = []

    def on_full_disk(path: Path, mode: str) -> io.BufferedWriter:
        path.touch()
        made.append(path)
        return open("/dev/full", mode.replace("x", "w"))  # type: ignore[return-value]

    monkeypatch.setattr(download_module, "open", on_full_disk, raising=False)
    urls = (server.serve("/a", BODY), server.serve("/b", BODY))
    with pytest.raises(DataError, match=r"cannot write .*No space left on device; 256,000 bytes are needed there"):
        download(source(*urls), tmp_path / "small.mat")
    assert len(made) == 1
    assert left_in(tmp_path) == []
    assert server.asked == ["/a"]  # another mirror would not help


def test_a_folder_that_cannot_be_made_is_one_sentence(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write .*a file is where its folder should be; .* set STEADYGRAD_DATA"):
        download(source(server.serve("/a", BODY)), tmp_path / "file" / "small.mat")


def test_an_interrupted_download_leaves_nothing(server, tmp_path, monkeypatch):
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        download(source(server.serve("/a", BODY)), tmp_path / "small.mat")
    assert left_in(tmp_path) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stderr", "progress", "drawn"),
    [(Terminal, True, True), (Terminal, False, False), (io.StringIO, True, False)],
    ids=["terminal", "switched-off", "no-terminal"],
)
def test_the_bar_is_drawn_on_a_terminal_and_only_there(server, tmp_path, monkeypatch, stderr, progress, drawn):
    screen = stderr()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    download(source(server.serve("/a", BODY)), tmp_path / "small.mat", progress)
    assert ("music/small.mat" in screen.getvalue()) == drawn
    assert bool(screen.getvalue()) == drawn
