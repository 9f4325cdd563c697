"""`steadygrad data`: what is there and what is missing, in columns; fetching with the sentences of the data's own room."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from steadygrad import cli, data
from steadygrad.data import store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of two known sets of a few bytes: `there`, and `gone`, whose mirrors answer nothing."""
    monkeypatch.setenv("STEADYGRAD_DATA", str(tmp_path / "data"))
    contents = {"there": b"do re mi", "gone": b"fa so"}
    urls = ("https://127.0.0.1:9/gone",)
    known = {
        name: (data.Source(f"music/{name}.mat", len(each), hashlib.sha256(each).hexdigest(), urls),)
        for name, each in contents.items()
    }
    for module in (data, store):
        monkeypatch.setattr(module, "SOURCES", known)
    (tmp_path / "data" / "music").mkdir(parents=True)
    (tmp_path / "data" / "music" / "there.mat").write_bytes(contents["there"])
    return tmp_path / "data"


def test_the_list_has_a_line_for_each_file_in_columns_and_the_summary_beside_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["data"]) == 0
    said = capsys.readouterr()
    header, there, gone = said.out.splitlines()
    assert header.split() == ["set", "file", "state", "bytes", "place"]
    assert there.split() == ["there", "music/there.mat", "there", "8", str(home / "music" / "there.mat")]
    assert gone.split() == ["gone", "music/gone.mat", "missing", "5", str(home / "music" / "gone.mat")]
    assert len({line.index(word) for line, word in ((header, "place"), (there, str(home)), (gone, str(home)))}) == 1
    assert said.err == "1 of 2 files is missing (0.0 MB): steadygrad data fetch gone\n"


def test_an_altered_file_is_told_and_a_whole_set_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "music" / "gone.mat").write_bytes(b"fa so la")
    assert cli.main(["data"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[2].split()[2] == "altered"
    assert said.err == f"not used, being altered or unreadable: {home / 'music' / 'gone.mat'}\n"
    (home / "music" / "gone.mat").write_bytes(b"fa so")
    assert cli.main(["data", "list"]) == 0
    assert capsys.readouterr().err == "all 2 files are there and verified\n"


def test_fetching_what_is_there_verifies_it_and_says_where_it_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["data", "fetch", "there", "there"]) == 0
    assert capsys.readouterr().out.split() == ["there", str(home / "music" / "there.mat")]


def test_fetching_downloads_what_is_missing_and_verifies_it(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def download(source: data.Source, target: Path, progress: bool) -> None:
        asked.append((source.path, progress))
        target.write_bytes(b"fa so")

    monkeypatch.setattr(store, "_download", download)
    assert cli.main(["data", "fetch", "all", "--quiet"]) == 0
    assert asked == [("music/gone.mat", False)]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["there", "gone"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("fetch", "NAME must be given: there, gone, or all"),
        ("fetch there gonne", "NAME must be one of 'there', 'gone', 'all', not 'gonne' (did you mean 'gone'?)"),
        ("fetsh there", "ACTION must be one of 'list', 'fetch', not 'fetsh' (did you mean 'fetch'?)"),
        ("list there", "NAME must be left out without fetch, not there"),
        ("fetch gone", "cannot download music/gone.mat (https://127.0.0.1:9/gone: "),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_is_wrong_is_one_sentence_and_exit_code_2(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["data", *words.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith(f"steadygrad: {sentence}")


def test_an_altered_file_is_never_replaced(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "music" / "there.mat").write_bytes(b"mine")
    assert cli.main(["data", "fetch", "there"]) == 2
    assert "is truncated or altered and is not used" in capsys.readouterr().err
    assert (home / "music" / "there.mat").read_bytes() == b"mine"


def test_the_help_names_every_known_set(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["data", "--help"])
    said = capsys.readouterr().out
    assert all(name in said for name in data.SOURCES)
