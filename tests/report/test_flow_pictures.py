"""The pictures of a run's gradients show its snapshots, each lag and each eigenvalue in its place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_up import run_folder, write_lines

from steadygrad import cli
from steadygrad.analysis import history
from steadygrad.report import curves

pytest.importorskip("matplotlib")


def test_snapshots_of_all_lengths_come_onto_one_axis_of_lags(tmp_path: Path) -> None:
    seen = curves.gradients(run_folder(tmp_path / "run"))
    assert seen.updates.tolist() == [0, 1000, 2000, 3000, 4000]
    assert seen.lags.tolist() == list(range(100))
    for check, steps in enumerate((20, 40, 60, 80, 100)):
        # The file holds four digits.
        np.testing.assert_allclose(seen.norms[check, :steps], 0.9 ** np.arange(steps), rtol=1e-3)
        assert np.isnan(seen.norms[check, steps:]).all()
    assert seen.horizons.tolist() == [[1000 * check, 20 * (check + 1) - 1] for check in range(5)]


def test_a_coarser_snapshot_makes_the_axis_coarser_and_keeps_every_value_at_its_lag(tmp_path: Path) -> None:
    fine = {"updates": 0, "steps": 6, "stride": 1, "norms": [0, 1, 2, 3, 4, 5], "eigenvalues": [[1, 0]]}
    coarse = {"updates": 9, "steps": 12, "stride": 3, "norms": [10, 13, 16, None], "eigenvalues": [[0, 1]]}
    write_lines(tmp_path / "flow.jsonl", [fine, coarse])
    write_lines(tmp_path / "metrics.jsonl", [])
    seen = curves.gradients(tmp_path)
    nan = np.nan
    assert seen.lags.tolist() == [0, 3, 6, 9]
    np.testing.assert_equal(seen.norms, [[0, 3, nan, nan], [10, 13, 16, nan]])
    np.testing.assert_equal(seen.eigenvalues, [[1], [1j]])
    np.testing.assert_equal(seen.radii, [1, 1])


def test_the_map_has_a_log_colour_centred_on_a_norm_that_is_kept(tmp_path: Path) -> None:
    seen = curves.gradients(run_folder(tmp_path / "run"))
    axes = history.draw_norms(seen).axes[0]
    (mesh,) = axes.collections
    # 0.9^99 = 3·10⁻⁵: five powers of ten are needed, to both sides alike.
    assert (mesh.norm.vmin, mesh.norm.vmax) == (pytest.approx(1e-5), pytest.approx(1e5))
    shown = np.ma.filled(mesh.get_array().reshape(len(seen.lags), len(seen.updates)).T, np.nan)
    np.testing.assert_equal(shown, seen.norms)


def test_the_spectrum_has_the_unit_circle_and_every_eigenvalue(tmp_path: Path) -> None:
    seen = curves.gradients(run_folder(tmp_path / "run"))
    plane = history.draw_spectrum(seen).axes[0]
    circle = plane.lines[0].get_xydata()
    np.testing.assert_allclose(np.hypot(*circle.T), 1.0, rtol=1e-12)
    cloud, last = (collection.get_offsets().data for collection in plane.collections)
    np.testing.assert_allclose(cloud, np.stack([seen.eigenvalues.real, seen.eigenvalues.imag], -1).reshape(-1, 2))
    np.testing.assert_allclose(last, np.stack([seen.eigenvalues[-1].real, seen.eigenvalues[-1].imag], -1))


def test_a_run_that_diverged_at_once_can_still_be_drawn(tmp_path: Path) -> None:
    line = {"updates": 0, "steps": 3, "stride": 1, "norms": [None] * 3, "eigenvalues": [[None, None]]}
    write_lines(tmp_path / "flow.jsonl", [line])
    write_lines(tmp_path / "metrics.jsonl", [])
    seen = curves.gradients(tmp_path)
    assert history.draw_norms(seen).axes
    assert history.draw_spectrum(seen).axes


def test_half_a_line_at_the_end_is_left_out_and_one_in_between_is_named(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    path = folder / "flow.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"updates": 5000, "st')
    assert len(curves.gradients(folder).updates) == 5
    path.write_text('{"updates": 5000, "st\n' + whole)
    with pytest.raises(ValueError, match=r"flow\.jsonl, line 1, must be a JSON object, and is not$"):
        curves.gradients(folder)
    path.write_text("")
    with pytest.raises(ValueError, match=r"flow\.jsonl must have a snapshot, and has none yet"):
        curves.gradients(folder)


def test_the_curves_of_a_run_are_its_metrics(tmp_path: Path) -> None:
    seen = curves.metrics(run_folder(tmp_path / "run"))
    error = curves.draw_run(seen).axes[0].lines[0]
    np.testing.assert_equal(error.get_xdata(), [0, 1000, 2000, 3000, 4000])
    np.testing.assert_equal(error.get_ydata(), [0.75 / check for check in (1, 2, 3, 4, 5)])
    lines = curves.draw_sweep([("a", "sgd", seen), ("b", "sgd-cr", seen), ("b", "sgd-c", seen)]).axes[1].lines
    assert {line.get_color() for line in lines} == {curves.COLORS["sgd-cr"], curves.COLORS["sgd-c"]}
    begun = {name: column[:1] for name, column in seen.items()}
    assert (
        curves.draw_sweep([("a", "sgd", begun)]).axes[0].lines[0].get_marker() == "o"
    )  # no line goes through one point


def test_the_command_writes_four_pictures_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "run")
    assert cli.main(["flow", str(folder), "--out", str(tmp_path / "pictures")]) == 0
    said = capsys.readouterr().out
    for name in ("flow.png", "flow.svg", "spectrum.png", "spectrum.svg"):
        path = tmp_path / "pictures" / name
        assert str(path) in said
        assert path.read_bytes().startswith((b"\x89PNG", b"<?xml"))
    assert "5 snapshots over 4,000 updates" in said
    once = (tmp_path / "pictures" / "flow.svg").read_bytes()
    assert cli.main(["flow", str(folder), "--out", str(tmp_path / "pictures")]) == 0
    assert (tmp_path / "pictures" / "flow.svg").read_bytes() == once
    assert cli.main(["flow", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"steadygrad: {tmp_path} must be the folder of a run, and holds no flow.jsonl\n"


def test_made_up_runs_have_the_keys_of_real_ones(tmp_path: Path) -> None:
    from steadygrad.experiments import Config, run

    config = Config("temporal-order", "sgd", (10, 12), hidden=4, check_every=2, check_sequences=20, test_sequences=20)
    run(config, tmp_path / "real", progress="none", max_updates=2)
    run_folder(tmp_path / "made up")
    for name in ("flow.jsonl", "metrics.jsonl"):
        real, made = (
            set(json.loads((tmp_path / which / name).read_text().splitlines()[-1])) for which in ("real", "made up")
        )
        assert made <= real
    assert curves.gradients(tmp_path / "real").eigenvalues.shape == (2, 4)
