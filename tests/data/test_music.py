"""Piano rolls from MATLAB files: what is read, and what never gets that far."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat

from steadygrad.data import SOURCES, DataError, Source, music
from steadygrad.data.music import transposed

RNG = np.random.default_rng(0)
LENGTHS = {"traindata": (5, 1, 3), "validdata": (2,), "testdata": (4, 6)}


def cell(arrays: list[Any]) -> np.ndarray:
    out = np.empty((1, len(arrays)), dtype=object)
    for i, array in enumerate(arrays):
        out[0, i] = array
    return out


def rolls() -> dict[str, list[Any]]:
    return {name: [RNG.integers(0, 2, (n, 88), dtype=np.uint8) for n in ns] for name, ns in LENGTHS.items()}


@pytest.fixture
def known(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Makes some bytes the file of "jsb", in its place and with its checksum."""

    def put(body: bytes) -> None:
        file = Source(
            "music/small.mat", len(body), hashlib.sha256(body).hexdigest(), ("https://example.org/small.mat",)
        )
        monkeypatch.setitem(SOURCES, "jsb", (file,))
        (empty_home / "music").mkdir(parents=True, exist_ok=True)
        (empty_home / "music" / "small.mat").write_bytes(body)

    return put


def matlab(parts: dict[str, list[Any]], **options: Any) -> bytes:
    file = io.BytesIO()
    savemat(file, {name: cell(arrays) for name, arrays in parts.items()}, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", [np.uint8, np.float64, np.bool_], ids=["uint8", "double", "logical"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compressed"])
def test_a_file_of_cells_gives_its_pieces_in_order(known, kind, packed):
    parts = rolls()
    known(matlab({name: [a.astype(kind) for a in arrays] for name, arrays in parts.items()}, do_compression=packed))
    data = music("jsb", download=False)
    assert data.counts == {"train": (3, 9), "valid": (1, 2), "test": (2, 10)}
    for pieces, arrays in zip((data.train, data.valid, data.test), parts.values(), strict=True):
        for piece, array in zip(pieces, arrays, strict=True):
            assert piece.dtype == torch.uint8
            assert piece.is_contiguous()
            assert torch.equal(piece, torch.from_numpy(array))


def test_a_missing_set_is_fetched_verified_and_loaded(empty_home, server, monkeypatch):
    body = matlab(rolls())
    file = Source("music/small.mat", len(body), hashlib.sha256(body).hexdigest(), (server.serve("/small.mat", body),))
    monkeypatch.setitem(SOURCES, "jsb", (file,))
    with pytest.raises(DataError, match="is not there"):
        music("jsb", download=False)
    assert music("jsb").counts == {"train": (3, 9), "valid": (1, 2), "test": (2, 10)}
    assert (empty_home / "music" / "small.mat").read_bytes() == body


@pytest.mark.parametrize("damage", [lambda body: body[:-40], lambda body: body[:300] + b"\xff" * 8 + body[308:]])
def test_a_damaged_file_never_reaches_the_reader(known, empty_home, monkeypatch, damage):
    body = matlab(rolls())
    known(body)
    (empty_home / "music" / "small.mat").write_bytes(damage(body))
    read: list[Any] = []
    monkeypatch.setattr("scipy.io.loadmat", lambda *file, **options: read.append(file))
    with pytest.raises(DataError, match="truncated or altered and is not used"):
        music("jsb")
    assert not read


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        pytest.param(np.full((2, 88), 2, np.uint8), "must hold only zeros and ones", id="two"),
        pytest.param(np.full((2, 88), -1, np.int8), "must hold only zeros and ones", id="minus-one"),
        pytest.param(np.full((2, 88), np.nan), "must hold only zeros and ones", id="nan"),
        pytest.param(np.zeros((2, 87), np.uint8), r"must be \[steps, 88\] .* not \[2, 87\]", id="87-keys"),
        pytest.param(np.zeros((0, 88), np.uint8), r"must be \[steps, 88\] .* not \[0, ", id="no-steps"),
        pytest.param("music", "must be an array of numbers", id="text"),
        pytest.param(cell([np.zeros((2, 88))]), "must be an array of numbers", id="nested-cell"),
        pytest.param({"a": 1}, "must be an array of numbers", id="struct"),
        pytest.param(np.full((2, 88), 1j), "must be an array of numbers", id="complex"),
    ],
)
def test_a_piece_that_is_no_binary_roll_is_named(known, array, reason):
    parts = rolls()
    parts["validdata"].append(array)
    known(matlab(parts))
    with pytest.raises(DataError, match=r"jsb: validdata\{2\} " + reason):
        music("jsb")


def test_a_missing_or_empty_part_is_named(known):
    parts = rolls()
    del parts["testdata"]
    known(matlab(parts))
    with pytest.raises(DataError, match=r"testdata must be a cell of at least one piece"):
        music("jsb")
    known(matlab(rolls() | {"validdata": []}))
    with pytest.raises(DataError, match=r"validdata must be a cell of at least one piece"):
        music("jsb")


def test_a_pickle_is_refused_and_not_run(known, tmp_path):
    trace = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (trace,))

    body = pickle.dumps(Trap())
    known(body)
    with pytest.raises(DataError, match="is not a MATLAB 5 file"):
        music("jsb")
    assert not trace.exists()
    pickle.loads(body)
    assert trace.exists()  # the trap does work


def test_without_scipy_one_sentence_says_what_to_install(known, monkeypatch):
    known(matlab(rolls()))
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match=r"needs scipy: pip install 'steadygrad\[data\]'"):
        music("jsb")


def test_a_piece_is_moved_to_every_key_that_keeps_its_notes_and_to_no_other():
    piece = torch.zeros(3, 88, dtype=torch.uint8)
    piece[0, 2] = piece[1, 80] = piece[2, 40] = 1
    generator = torch.Generator().manual_seed(1)
    found = {int(transposed(piece, 4, generator)[0].argmax()): transposed(piece, 4, generator) for _ in range(200)}
    assert sorted(found) == [0, 1, 2, 3, 4, 5, 6]  # down by two at most: there is no key below
    for moved in found.values():
        by = int(moved[0].argmax()) - 2
        assert torch.equal(moved.nonzero(), piece.nonzero() + torch.tensor([0, by]))


@pytest.mark.parametrize("keys", [[], [0, 87]], ids=["silence", "all octaves"])
def test_a_piece_that_cannot_be_moved_stays(keys: list[int]):
    piece = torch.zeros(2, 88, dtype=torch.uint8)
    piece[1, keys] = 1
    generator = torch.Generator().manual_seed(1)
    assert all(torch.equal(transposed(piece, 87, generator), piece) for _ in range(20))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("piano-midi", {"train": (87, 75_911), "valid": (12, 8_540), "test": (25, 19_036)}),
        ("nottingham", {"train": (694, 176_561), "valid": (173, 45_513), "test": (170, 44_463)}),
        ("musedata", {"train": (524, 245_202), "valid": (135, 82_755), "test": (124, 64_339)}),
    ],
)
def test_a_published_set_has_its_published_counts(real_data, name, counts):
    data = music(name, download=False)
    assert data.counts == counts
    assert f"train: {counts['train'][0]} pieces, {counts['train'][1]:,} steps" in repr(data)


def test_the_chorales_have_their_published_counts(real_data):
    if not (real_data / "music" / "JSB_Chorales.mat").exists():
        pytest.skip("JSB_Chorales.mat is not in the data folder")
    assert {part: n for part, (n, _) in music("jsb", download=False).counts.items()} == {
        "train": 229,
        "valid": 76,
        "test": 77,
    }
