"""MIDI to rolls and back: time, tempo, range, and every way a file can be of no use."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import mido
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadygrad.data import DataError, midi_folder, read_midi, write_midi

MIDDLE_C = 60 - 21


def messages(*events: Any) -> mido.MidiTrack:
    return mido.MidiTrack(list(events))


def on(note: int, time: int = 0, **options: Any) -> mido.Message:
    return mido.Message("note_on", note=note, velocity=options.pop("velocity", 64), time=time, **options)


def off(note: int, time: int = 0, **options: Any) -> mido.Message:
    return mido.Message("note_off", note=note, time=time, **options)


def tempo(microseconds: int, time: int = 0) -> mido.MetaMessage:
    return mido.MetaMessage("set_tempo", tempo=microseconds, time=time)


def save(path: Path, *tracks: mido.MidiTrack, ticks: int = 480, type: int = 1) -> Path:
    mido.MidiFile(type=type, ticks_per_beat=ticks, tracks=list(tracks)).save(path)
    return path


def sounding(roll: Tensor, key: int = MIDDLE_C) -> list[int]:
    return roll[:, key].tolist()


def random_roll(steps: int, seed: int = 0, density: float = 0.3) -> Tensor:
    roll = (torch.rand(steps, 88, generator=torch.Generator().manual_seed(seed)) < density).to(torch.uint8)
    roll[steps // 2, MIDDLE_C] = 1  # a file without notes is no music
    return roll


@settings(deadline=None, max_examples=30)
@given(
    steps=st.integers(1, 40),
    seed=st.integers(0, 999),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    step_seconds=st.floats(0.02, 3.0),
    beats=st.floats(30.0, 260.0),
)
def test_a_written_roll_is_read_back_at_any_step_and_tempo(tmp_path_factory, steps, seed, density, step_seconds, beats):
    roll = random_roll(steps, seed, density)
    path = tmp_path_factory.getbasetemp() / "roll.mid"
    write_midi(roll, path, step_seconds=step_seconds, tempo=beats)
    back, dropped = read_midi(path, step_seconds)
    assert torch.equal(back, roll)
    assert dropped == 0


def test_a_long_roll_does_not_drift(tmp_path):
    roll = random_roll(3000, density=0.02)
    write_midi(roll, tmp_path / "a.mid", step_seconds=0.0123, tempo=133.7)
    assert torch.equal(read_midi(tmp_path / "a.mid", 0.0123).roll, roll)


@pytest.mark.parametrize("kind", [torch.uint8, torch.bool, torch.float32])
def test_with_the_defaults_a_step_is_an_eighth_note(tmp_path, kind):
    roll = random_roll(20)
    write_midi(roll.to(kind), tmp_path / "a.mid")
    assert torch.equal(read_midi(tmp_path / "a.mid").roll, roll)
    assert torch.equal(read_midi(tmp_path / "a.mid", "quarter/4").roll, roll.repeat_interleave(2, 0))


def test_a_held_key_is_written_as_one_note(tmp_path):
    roll = torch.zeros(9, 88)
    roll[1:4, MIDDLE_C] = roll[6:8, MIDDLE_C] = 1
    write_midi(roll, tmp_path / "a.mid")
    (track,) = mido.MidiFile(tmp_path / "a.mid").tracks
    assert [message.type for message in track if message.type.startswith("note")] == ["note_on", "note_off"] * 2


@pytest.mark.parametrize(
    ("begin", "finish", "expected"),
    [
        (0, 480, [1, 1, 0, 0]),
        (119, 361, [1, 1, 0, 0]),  # ticks 119 and 361 are nearest to 0 and 480: half a step is 120
        (120, 359, [0, 1, 0, 0]),  # a tie goes to the later step
        (239, 241, [0, 1, 0, 0]),  # a note shorter than a step still fills one
        (700, 720, [0, 0, 0, 1]),
        (480, 960, [0, 0, 1, 1]),
    ],
)
def test_both_ends_of_a_note_go_to_the_nearest_step(tmp_path, begin, finish, expected):
    track = messages(on(60, begin), off(60, finish - begin), mido.MetaMessage("end_of_track", time=960 - finish))
    assert sounding(read_midi(save(tmp_path / "a.mid", track)).roll) == expected


def test_the_tempo_map_rules_clock_time_and_not_score_time(tmp_path):
    # Four quarters: two at 0.5 s, then two at 1 s. The tempo stands in a track of its own, as in most files.
    conductor = messages(tempo(500_000), tempo(1_000_000, time=960))
    notes = messages(*(event for _ in range(4) for event in (on(60, 240), off(60, 240))))
    path = save(tmp_path / "a.mid", conductor, notes)
    # Rest and note take half of each quarter: 0.25 s each twice, then 0.5 s each twice.
    assert sounding(read_midi(path, 0.25).roll) == [0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    assert sounding(read_midi(path, "quarter/2").roll) == [0, 1] * 4


def test_without_a_tempo_a_quarter_lasts_half_a_second(tmp_path):
    path = save(tmp_path / "a.mid", messages(on(60), off(60, 480), on(60, 480), off(60, 480)))
    assert sounding(read_midi(path, 0.5).roll) == [1, 0, 1]


def test_of_two_tempi_at_one_time_the_later_written_holds(tmp_path):
    path = save(tmp_path / "a.mid", messages(tempo(250_000), tempo(1_000_000), on(60), off(60, 480)))
    assert sounding(read_midi(path, 0.25).roll) == [1, 1, 1, 1]


def test_notes_of_all_tracks_and_channels_sound_together(tmp_path):
    path = save(
        tmp_path / "a.mid",
        messages(on(60), on(64, channel=3), off(60, 240), off(64, 240, channel=3)),
        messages(on(67, 240), off(67, 480)),
    )
    roll = read_midi(path).roll
    assert [roll[t].nonzero().flatten().add(21).tolist() for t in range(3)] == [[60, 64], [64, 67], [67]]


def test_notes_of_one_key_overlap_release_by_velocity_zero_and_end_with_their_track(tmp_path):
    overlapping = messages(on(60), on(60, 240), off(60, 240), on(60, 480, velocity=0), off(60, 240))
    assert sounding(read_midi(save(tmp_path / "a.mid", overlapping)).roll) == [1, 1, 1, 1, 0]
    unfinished = messages(on(60), mido.MetaMessage("end_of_track", time=720))
    assert sounding(read_midi(save(tmp_path / "b.mid", unfinished)).roll) == [1, 1, 1]


def test_the_whole_keyboard_is_kept_and_what_lies_beyond_is_dropped_and_counted(tmp_path):
    struck = [20, 21, 108, 109, 127, 0]
    track = messages(*(on(note) for note in struck), *(off(note, 240 * (note == 20)) for note in struck))
    drums = messages(on(60, channel=9), off(60, 240, channel=9))
    roll, dropped = read_midi(save(tmp_path / "a.mid", track, drums))
    assert roll.tolist() == [[1] + [0] * 86 + [1]]
    assert dropped == 5


def broken_files(folder: Path) -> dict[str, str]:
    """Files of no use, and what should be said of each."""
    good = save(folder / "good.mid", messages(on(60), off(60, 240))).read_bytes()
    (folder / "good.mid").unlink()
    save(folder / "silent.mid", messages(tempo(500_000)))
    save(folder / "drums.mid", messages(on(60, channel=9), off(60, 240, channel=9)))
    save(folder / "async.mid", messages(on(60), off(60, 240)), type=2)
    save(folder / "endless.mid", messages(on(60), off(60, 2**27), on(60), off(60, 2**27)), ticks=1)
    (folder / "empty.mid").write_bytes(b"")
    (folder / "text.mid").write_bytes(b"To whom it may concern")
    (folder / "cut.mid").write_bytes(good[:-6])
    (folder / "wrong.mid").write_bytes(good.replace(b"MTrk", b"XTrk"))
    (folder / "key.mid").write_bytes(good.replace(bytes([0x90, 60, 64]), bytes([0x90, 60, 200])))
    endless_delta = bytes([0xFF] * 2000) + good[22:]  # the track's events, after a time value of 2,000 bytes and more
    (folder / "late.mid").write_bytes(good[:18] + len(endless_delta).to_bytes(4, "big") + endless_delta)
    (folder / "film.mid").write_bytes(good[:12] + bytes([0xE7, 40]) + good[14:])
    return {
        "silent.mid": "holds no notes",
        "drums.mid": r"holds no notes for a piano \(1 others\)",
        "async.mid": "is a MIDI file of type 2",
        "endless.mid": "would last 536,870,912 steps, more than 1,000,000",
        "empty.mid": "is not a MIDI file",
        "text.mid": "is not a MIDI file",
        "cut.mid": r"is a damaged MIDI file \(it ends too early\)",
        "wrong.mid": r"is a damaged MIDI file \(OSError: no MTrk header",
        "key.mid": r"is a damaged MIDI file \(OSError: data byte must be",
        "late.mid": r"is a damaged MIDI file \(a time value longer",
        "film.mid": r"counts time in film frames \(SMPTE\)",
    }


def test_a_file_of_no_use_is_one_sentence_that_names_it(tmp_path):
    for name, reason in broken_files(tmp_path).items():
        with pytest.raises(DataError, match=rf"/{name} {reason}"):
            read_midi(tmp_path / name)
    with pytest.raises(DataError, match=r"cannot read .*none\.mid: No such file"):
        read_midi(tmp_path / "none.mid")


def music_folder(folder: Path, n: int = 10) -> list[Tensor]:
    rolls = [random_roll(8 + i, seed=i) for i in range(n)]
    (folder / "deeper").mkdir(parents=True)
    for i, roll in enumerate(rolls):
        write_midi(roll, folder / ("deeper" if i % 2 else "") / (f"{i}.MID" if i % 3 else f"{i}.midi"))
    (folder / "readme.txt").write_text("not music")
    return rolls


def test_a_folder_gives_every_piece_once_in_parts_of_the_size_asked(tmp_path):
    rolls = music_folder(tmp_path / "mine")
    data = midi_folder(tmp_path / "mine", valid=0.2, test=0.3)
    assert (len(data.train), len(data.valid), len(data.test)) == (5, 2, 3)
    found = sorted((*data.train, *data.valid, *data.test), key=len)
    assert all(torch.equal(a, b) for a, b in zip(found, rolls, strict=True))
    assert (data.name, data.dropped, data.skipped) == ("mine", 0, ())


def test_the_parts_depend_on_the_contents_and_on_no_name(tmp_path):
    music_folder(tmp_path / "a")
    (tmp_path / "b").mkdir()
    for i, file in enumerate(sorted((tmp_path / "a").rglob("*.[Mm]*"), reverse=True)):
        shutil.copy(file, tmp_path / "b" / f"renamed{i}.mid")
    a, b = midi_folder(tmp_path / "a"), midi_folder(tmp_path / "b")
    for part in ("train", "valid", "test"):
        assert all(torch.equal(x, y) for x, y in zip(getattr(a, part), getattr(b, part), strict=True))


def test_a_fraction_above_zero_gets_a_file_and_zero_gets_none(tmp_path):
    music_folder(tmp_path / "mine", 3)
    data = midi_folder(tmp_path / "mine", valid=0.01, test=0)
    assert (len(data.train), len(data.valid), len(data.test)) == (2, 1, 0)


def test_all_files_of_no_use_are_named_at_once_or_skipped_on_request(tmp_path):
    music_folder(tmp_path / "mine", 5)
    expected = broken_files(tmp_path / "mine")
    with pytest.raises(DataError, match=r"^11 of 16 MIDI files cannot be used \(faults='skip'") as caught:
        midi_folder(tmp_path / "mine")
    assert all(name in str(caught.value) for name in expected)
    data = midi_folder(tmp_path / "mine", faults="skip")
    assert sum(n for n, _ in data.counts.values()) == 5
    assert len(data.skipped) == 11
    assert all(any(f"/{name} " in sentence for sentence in data.skipped) for name in expected)


def test_dropped_notes_of_a_folder_are_counted_together(tmp_path):
    for i in range(3):
        save(tmp_path / f"{i}.mid", messages(on(60), off(60, 240), *(on(120) for _ in range(i))))
    assert midi_folder(tmp_path).dropped == 3


@pytest.mark.parametrize(
    ("files", "reason"), [(None, "is not a folder"), (0, "holds 0 usable MIDI files"), (2, "need at least 3")]
)
def test_a_folder_without_enough_music_is_one_sentence(tmp_path, files, reason):
    if files is not None:
        music_folder(tmp_path / "mine", files)
    with pytest.raises(DataError, match=reason):
        midi_folder(tmp_path / "mine")


@pytest.mark.parametrize(
    "step", ["eighth", "quarter/0", "quarter/", "quarters", 0, 1e-320, -0.5, float("nan"), True, None]
)
def test_an_impossible_step_is_refused(tmp_path, step):
    for read in (lambda: read_midi(tmp_path / "a.mid", step), lambda: midi_folder(tmp_path, step=step)):
        with pytest.raises(ValueError, match="step must be"):
            read()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valid": 1.0}, "valid must be a number in"),
        ({"test": -1.0}, "test must be a number in"),
        ({"valid": 0.6, "test": 0.6}, r"valid \+ test must be below 1, not 1.2"),
        ({"faults": "ignore"}, "faults must be one of 'raise', 'skip', not 'ignore'"),
    ],
)
def test_impossible_options_of_a_folder_are_refused(tmp_path, options, reason):
    with pytest.raises(ValueError, match=reason):
        midi_folder(tmp_path, **options)


@pytest.mark.parametrize(
    ("roll", "options", "reason"),
    [
        (torch.zeros(3, 87), {}, r"roll must be a tensor \[steps, 88\] with at least one step, not \[3, 87\]"),
        (torch.zeros(0, 88), {}, r"not \[0, 88\]"),
        ([[0] * 88], {}, "not list"),
        (torch.full((1, 88), 0.5), {}, "roll must hold only zeros and ones"),
        (torch.full((1, 88), torch.nan), {}, "roll must hold only zeros and ones"),
        (torch.ones(1, 88), {"step_seconds": 0}, "step_seconds must be a finite number of at least 0.001, not 0"),
        (torch.ones(9, 88), {"step_seconds": 1e5}, "roll must have at most 2 steps of 100000.0 s, not 9"),
        (torch.ones(1, 88), {"step_seconds": 0.002}, "step_seconds must be at least 0.00208333 at a tempo of 120"),
        (torch.ones(1, 88), {"tempo": 0}, "tempo must be a number in"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, roll, options, reason):
    with pytest.raises(ValueError, match=reason):
        write_midi(roll, tmp_path / "a.mid", **options)
    assert not (tmp_path / "a.mid").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"cannot write .*a\.mid: No such file"):
        write_midi(random_roll(2), tmp_path / "none" / "a.mid")


def test_without_mido_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    write_midi(random_roll(2), tmp_path / "a.mid")
    monkeypatch.setitem(sys.modules, "mido", None)
    with pytest.raises(ImportError, match=r"reading MIDI files needs mido: pip install 'steadygrad\[data\]'"):
        read_midi(tmp_path / "a.mid")
    with pytest.raises(ImportError, match=r"writing MIDI files needs mido"):
        write_midi(random_roll(2), tmp_path / "b.mid")
