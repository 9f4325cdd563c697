"""Characters: the Penn Treebank's, and those of the user's own file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steadygrad.data import SOURCES, DataError, Source, TextData, characters, text_file


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "mine.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_treebank_has_its_published_counts(real_data):
    data = characters("ptb", download=False)
    assert (len(data.train), len(data.valid), len(data.test)) == (5_017_482, 393_042, 442_423)
    assert len(data.vocabulary) == 50
    assert "\n" in data.vocabulary
    assert data.train.unique().tolist() == list(range(50))
    words = (real_data / "ptb" / "ptb.test.txt").read_text().split("\n")
    assert data.decode(data.test) == "\n".join(line.strip() for line in words)


def test_lines_lose_their_outer_spaces_and_keep_one_token_for_their_end(empty_home, server, monkeypatch):
    parts = {"train": b" a bc \n c  d\n\n", "valid": b" a \n", "test": b"b"}
    files = tuple(
        Source(f"{part}.txt", len(body), hashlib.sha256(body).hexdigest(), (server.serve(f"/{part}", body),))
        for part, body in parts.items()
    )
    monkeypatch.setitem(SOURCES, "ptb", files)
    data = characters("ptb")
    assert data.vocabulary == ("\n", " ", "a", "b", "c", "d")
    assert data.decode(data.train) == "a bc\nc  d\n\n"
    assert data.decode(data.valid) == "a\n"
    assert data.decode(data.test) == "b\n"
    assert data.train.dtype == torch.int64


def test_the_parts_of_a_text_are_contiguous_and_give_it_back(tmp_path):
    text = "".join(chr(0x4E00 + i % 300) for i in range(1000)) + "né\n" * 10
    data = text_file(write(tmp_path, text), valid=0.1, test=0.2)
    assert [len(part) for part in (data.train, data.valid, data.test)] == [721, 103, 206]
    assert "".join(data.decode(part) for part in (data.train, data.valid, data.test)) == text
    assert data.vocabulary == tuple(sorted(set(text)))
    assert data.name == "mine"


def test_line_ends_become_one_and_a_byte_order_mark_is_dropped(tmp_path):
    data = text_file(write(tmp_path, b"\xef\xbb\xbfab\r\ncd\re\n"), valid=0, test=0)
    assert data.decode(data.train) == "ab\ncd\ne\n"
    assert len(data.valid) == len(data.test) == 0


SMALL = TextData("small", *(torch.zeros(0, dtype=torch.int64),) * 3, vocabulary=tuple("\n aé漢🎹"))


@given(st.text(alphabet="\n aé漢🎹"))
def test_decoding_undoes_encoding(text):
    tokens = SMALL.encode(text)
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == [SMALL.vocabulary.index(character) for character in text]
    assert SMALL.decode(tokens) == text


@pytest.mark.parametrize(
    ("prompt", "strangers"), [("baz", "'b', 'z'"), ("a\x00", r"'\\x00'"), ("\ud800", r"'\\ud800'"), ("🎻", "'🎻'")]
)
def test_a_prompt_with_unknown_characters_is_refused_by_name(prompt, strangers):
    with pytest.raises(ValueError, match=rf"characters of the vocabulary \(6\), not {strangers}$"):
        SMALL.encode(prompt)


def test_a_prompt_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match="text must be a str, not bytes"):
        SMALL.encode(b"a")  # type: ignore[arg-type]


@pytest.mark.parametrize("tokens", [torch.tensor([0, 6]), torch.tensor([-1]), torch.tensor([0.0]), torch.zeros(1, 1)])
def test_tokens_outside_the_vocabulary_are_refused(tokens):
    with pytest.raises(ValueError, match="tokens must"):
        SMALL.decode(tokens)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", r"too short: of its 0 characters .* train and valid and test", id="empty"),
        pytest.param(b"a" * 30, "of its 30 characters fewer than 2 fall to valid and test", id="short"),
        pytest.param(b"caf\xe9", "not UTF-8 text .* at byte 3", id="latin-1"),
        pytest.param(b"\x80\x04\x95", "not UTF-8 text .* at byte 0", id="pickle"),
    ],
)
def test_a_text_that_cannot_be_used_is_one_sentence(tmp_path, body, reason):
    with pytest.raises(DataError, match=reason):
        text_file(write(tmp_path, body))


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*No such file"):
        text_file(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"cannot read .*Is a directory"):
        text_file(tmp_path)


@pytest.mark.parametrize(
    ("fractions", "reason"),
    [
        ({"valid": 1.0}, "valid must be a number in"),
        ({"test": -0.1}, "test must be a number in"),
        ({"valid": 0.5, "test": 0.5}, r"valid \+ test must be below 1, not 1"),
    ],
)
def test_impossible_fractions_are_refused(tmp_path, fractions, reason):
    with pytest.raises(ValueError, match=reason):
        text_file(write(tmp_path, "a" * 100), **fractions)
