"""Data is found where it belongs, and used only when it is what it should be."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from platformdirs import user_cache_path

from steadygrad.data import SOURCES, DataError, Source, fetch, home, listing, locate
from steadygrad.data.store import contents

BODY = b"the right bytes"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Source:
    """A stand-in for the file of "jsb", with no mirror that could be asked."""
    source = Source("music/small.mat", len(BODY), hashlib.sha256(BODY).hexdigest(), ("http://example.org/small.mat",))
    monkeypatch.setitem(SOURCES, "jsb", (source,))
    return source


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def states(name: str) -> list[str]:
    return [row.state for row in listing() if row.name == name]


def test_every_known_file_has_a_place_a_checksum_and_two_https_mirrors():
    files = [source for sources in SOURCES.values() for source in sources]
    assert len({source.path for source in files}) == len(files) == 7
    for source in files:
        assert re.fullmatch("[0-9a-f]{64}", source.sha256)
        assert source.size > 0
        assert len(set(source.urls)) == 2
        for url in source.urls:
            assert urlsplit(url).scheme == "https"
            assert Path(urlsplit(url).path).name == Path(source.path).name


def test_the_home_is_the_folder_of_the_environment_or_else_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("STEADYGRAD_DATA", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.setenv("STEADYGRAD_DATA", "~/music")
    assert home() == Path.home() / "music"
    monkeypatch.setenv("STEADYGRAD_DATA", "")
    assert home() == user_cache_path("steadygrad", appauthor=False)
    monkeypatch.delenv("STEADYGRAD_DATA")
    assert home() == user_cache_path("steadygrad", appauthor=False)


def test_without_platformdirs_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.delenv("STEADYGRAD_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ImportError, match=r"needs platformdirs: pip install 'steadygrad\[data\]', or set"):
        home()


@pytest.mark.parametrize("function", [locate, fetch])
def test_an_unknown_name_is_refused_with_the_nearest_one(function):
    with pytest.raises(ValueError, match=r"name must be one of .*not 'notingham' \(did you mean 'nottingham'\?\)"):
        function("notingham")


def test_a_right_file_is_read_without_touching_the_network(empty_home, small):
    path = put(empty_home / small.path, BODY)
    assert fetch("jsb") == locate("jsb") == (path,)
    assert contents("jsb") == (BODY,)
    assert states("jsb") == ["there"]


def test_a_folder_that_can_only_be_read_is_enough_for_reading(empty_home, small):
    path = put(empty_home / small.path, BODY)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    before = path.parent.stat().st_mtime_ns
    try:
        assert contents("jsb") == (BODY,)
        assert states("jsb") == ["there"]
        assert path.parent.stat().st_mtime_ns == before  # no file was made there, not even for a moment
    finally:
        path.parent.chmod(0o755)


@pytest.mark.parametrize("altered", [BODY[:-1], BODY[:-1] + b"!", b""], ids=["truncated", "altered", "empty"])
def test_a_wrong_file_is_never_used_nor_overwritten(empty_home, small, altered):
    path = put(empty_home / small.path, altered)
    found = hashlib.sha256(altered).hexdigest()
    for use in (fetch, contents):
        with pytest.raises(DataError) as caught:
            use("jsb")
        for part in (str(path), found, small.sha256, "delete it and run steadygrad.data.fetch('jsb')"):
            assert part in str(caught.value)
    assert path.read_bytes() == altered
    assert states("jsb") == ["altered"]


def test_a_missing_file_is_fetched_or_reported_as_asked(empty_home, small, server, monkeypatch):
    with pytest.raises(DataError) as caught:
        contents("jsb", download=False)
    for part in (str(empty_home / small.path), small.urls[0], small.sha256, "steadygrad.data.fetch('jsb')"):
        assert part in str(caught.value)
    assert states("jsb") == ["missing"]

    near = Source(small.path, small.size, small.sha256, (server.serve("/small.mat", BODY),))
    monkeypatch.setitem(SOURCES, "jsb", (near,))
    assert contents("jsb") == (BODY,)
    assert contents("jsb") == (BODY,)
    assert server.asked == ["/small.mat"]  # the second time it was there
    assert states("jsb") == ["there"]


def test_a_file_that_cannot_be_read_is_one_sentence(empty_home, small):
    (empty_home / small.path).mkdir(parents=True)
    with pytest.raises(DataError, match=r"cannot read .*small\.mat: Is a directory"):
        contents("jsb")
    assert states("jsb") == ["unreadable"]


def test_the_listing_has_a_row_for_each_known_file(empty_home):
    rows = listing()
    assert [(row.name, row.file) for row in rows] == [(name, s.path) for name, files in SOURCES.items() for s in files]
    assert {row.state for row in rows} == {"missing"}
    assert all(row.path == empty_home / row.file for row in rows)
    assert not empty_home.exists()


def test_the_real_files_have_the_known_sizes_and_checksums(real_data):
    rows = [row for row in listing() if row.path.exists()]
    assert {row.state for row in rows} == {"there"}
    assert all(row.path.stat().st_size == row.size for row in rows)
