"""The figures: their numbers against the dynamics they claim to show, their pictures against the eye's needs."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steadygrad import provenance
from steadygrad.dynamics import ErrorSurface, OneUnit
from steadygrad.dynamics.diagram import bifurcation_diagram
from steadygrad.paper import PRINTED, FigureData, fig2, fig4, fig6
from steadygrad.paper.figures import FIGURES, reproduce
from steadygrad.plotting import save_with_data as save

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def data() -> dict[str, FigureData]:
    """Every figure's data; Fig. 6 with a coarse mesh and four starts, since its statistics have a test of their own."""
    small: dict[str, dict[str, Any]] = {"fig6": {"grid": 30, "starts": 2, "rates": (0.5, 1.0)}}
    return {name: module.data(**small.get(name, {})) for name, module in FIGURES.items()}


def settings() -> dict[str, Any]:
    # Reading the backend would make matplotlib choose one, through pyplot.
    return {key: matplotlib.rcParams[key] for key in list(matplotlib.rcParams) if key != "backend"}


@pytest.fixture(scope="module")
def drawn(data: dict[str, FigureData]) -> dict[str, Any]:
    """Every figure, drawn where pyplot cannot be imported, and without a trace in matplotlib's settings."""
    before, figures = settings(), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.pyplot", None)
        for name, module in FIGURES.items():
            figures[name] = module.draw(data[name])
    assert settings() == before
    return figures


def test_every_figure_says_what_it_is_and_what_the_paper_claims() -> None:
    assert list(FIGURES) == ["fig2", "fig3", "fig4", "fig5", "fig6"]
    assert len({PRINTED[name]["title"] for name in FIGURES}) == len(FIGURES)
    for name in FIGURES:
        assert len(PRINTED[name]["claim"]) > 80


def test_fig2_arrows_back_reverse_arrows_forward() -> None:
    data = fig2.data()
    forward = {tuple(edge) for edge in data["forward"].tolist()}
    labels = data["labels"].tolist()
    for (start, end), label in zip(data["backward"].tolist(), data["backward_labels"].tolist(), strict=True):
        assert (end, start) in forward
        # ∂(what the error comes from)/∂(the state it goes to)
        assert label == rf"\frac{{\partial {labels[start]}}}{{\partial {labels[end]}}}"
    # Inputs receive no error here: the gradient runs through states only.
    assert {end for _, end in data["backward"].tolist()} == {3, 4, 5}


def test_fig3_curve_holds_every_fixed_point(data: dict[str, FigureData]) -> None:
    curve = data["fig3"]
    x, b = np.asarray(curve["x"], float), np.asarray(curve["b"], float)
    np.testing.assert_allclose(OneUnit(5.0, 0.0)(x) + b, x, atol=1e-14)
    for value in (-2.9, -2.51, -2.1):
        expected = [p.x for p in OneUnit(5.0, value).fixed_points()]
        (at,) = np.nonzero(np.diff(np.sign(b - value)))
        np.testing.assert_allclose(x[at], expected, atol=0.0101)  # one step of the curve is 0.01


def test_fig3_circles_are_where_a_tiny_change_of_b_changes_the_end(data: dict[str, FigureData]) -> None:
    curve = data["fig3"]
    for b, x, low, high in zip(*(curve[f"crossing_{key}"] for key in ("b", "x", "low", "high")), strict=True):
        ends = [OneUnit(5.0, float(b) + shift).attractor(float(x))[0] for shift in (-1e-9, 1e-9)]
        np.testing.assert_allclose(ends, [low, high], atol=1e-6)
    for name, way in (("1", 1), ("2", -1)):
        b, x = float(curve[f"b{name}"]), float(curve[f"x{name}"])
        before, after = (OneUnit(5.0, b + way * shift).attractor(x) for shift in (-1e-6, 1e-6))
        # Just before the fold the attractor is within √(2·1e-6) of it; just after, it is across the plane.
        assert abs(before[0] - x) < 5e-3
        np.testing.assert_allclose(after[0], curve[f"landing{name}"], atol=1e-5)


def test_fig3_field_is_one_step_of_the_map(data: dict[str, FigureData]) -> None:
    field = {key: np.asarray(data["fig3"][f"field_{key}"], float) for key in ("b", "x", "step")}
    np.testing.assert_allclose(field["step"], OneUnit(5.0, 0.0)(field["x"]) + field["b"] - field["x"], atol=1e-15)


def test_fig4_and_fig5_show_the_same_trajectories(data: dict[str, FigureData]) -> None:
    np.testing.assert_array_equal(data["fig4"]["states"], data["fig5"]["states"])
    states, half = (np.asarray(data["fig5"][key], float) for key in ("states", "after_fixed"))
    np.testing.assert_array_equal(half, OneUnit(fig4.W, fig4.B)(states[:, :-1]))
    np.testing.assert_allclose(states[:, 1:] - half, np.broadcast_to(fig4.INPUTS, half.shape), atol=1e-15)


def test_fig4_small_difference_becomes_large_without_a_large_input(data: dict[str, FigureData]) -> None:
    delta = np.asarray(data["fig4"]["delta"], float)
    assert (np.diff(delta) > 0).all()
    assert delta[-1] > 15 * delta[0]
    assert np.abs(fig4.INPUTS).max() < 0.1 * delta[-1]


def test_fig5_both_begin_in_one_basin_and_one_shift_parts_them(data: dict[str, FigureData]) -> None:
    (boundary,) = data["fig5"]["boundary"]
    states = np.asarray(data["fig5"]["states"], float)
    assert (states[:, 0] > boundary).all()
    assert data["fig5"]["crossings"].tolist() == [[0, 2, -1]]
    assert states[0, -1] < boundary < states[1, -1]


def test_fig6_surface_and_wall_are_those_of_the_error_surface(data: dict[str, FigureData]) -> None:
    surface, shown = ErrorSurface(), {key: np.asarray(value) for key, value in data["fig6"].items()}
    np.testing.assert_array_equal(shown["loss"], surface.loss(shown["w"], shown["b"]))
    assert (np.diff(shown["b"], axis=0) > 0).all()
    np.testing.assert_allclose(shown["wall_b"], surface.wall(shown["wall_w"]))
    np.testing.assert_allclose(shown["w"][0, [0, -1]], fig6.W_RANGE)
    np.testing.assert_allclose(shown["b"][[0, -1], 0], fig6.B_RANGE)


def test_fig6_plain_descent_is_thrown_and_clipped_descent_ends_in_the_valley(data: dict[str, FigureData]) -> None:
    shown = data["fig6"]
    throw = int(shown["throw_step"])
    path = np.asarray(shown["plain_path"], float)
    assert np.linalg.norm(path[throw] - path[throw - 1]) == float(shown["throw_length"]) > 2.0
    assert float(shown["throw_length"]) == pytest.approx(fig6.LR * float(shown["throw_norm"]), rel=1e-12)
    # From there on the plain run never comes back; the clipped one stays in the valley for its last 40 updates.
    assert np.asarray(shown["plain_losses"], float)[throw:].min() > 0.05
    assert np.asarray(shown["clipped_losses"], float)[-40:].max() < fig6.TOLERANCE
    assert not bool(shown["plain_reached"])
    assert bool(shown["clipped_reached"])


def test_fig6_clipping_reaches_the_valley_from_more_starts() -> None:
    shown = fig6.data(grid=12, starts=6, rates=(0.5,))
    (plain,), (clipped,) = shown["reached_plain"], shown["reached_clipped"]
    # A run that bounces on the wall amplifies rounding, so one start or two may go either way: 2/36 is 0.06.
    assert clipped > plain + 0.1


@pytest.mark.parametrize("name", list(FIGURES))
def test_text_is_legible_and_nothing_overlaps_or_leaves_the_page(
    name: str, drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.text import Text

    painted: dict[int, Any] = {}
    paint = Text.draw

    def record(text: Any, renderer: Any) -> None:
        painted[id(text)] = text
        paint(text, renderer)

    figure = drawn[name]
    monkeypatch.setattr(Text, "draw", record)
    figure.canvas.draw()
    page, boxes = figure.bbox, []
    for text in painted.values():
        label = text.get_text()
        if not (label.strip() and text.get_visible()):
            continue  # an annotation without words is an arrow
        box = Text.get_window_extent(text)
        assert text.get_fontsize() >= 8, label
        assert page.x0 <= box.x0 < box.x1 <= page.x1, f"{label!r} leaves the page"
        assert page.y0 <= box.y0 < box.y1 <= page.y1, f"{label!r} leaves the page"
        boxes.append((label, box))
    assert len(boxes) > 8
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        assert not first.overlaps(second), f"{one!r} lies over {other!r}"


@pytest.mark.parametrize("name", ["fig3", "fig4", "fig5", "fig6"])
def test_every_axis_is_named(name: str, drawn: dict[str, Any]) -> None:
    for axes in drawn[name].axes:
        if axes.get_label() == "<colorbar>":
            assert axes.get_ylabel()
            continue
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        if axes.name == "3d":
            assert any("error" in text.get_text() for text in axes.texts)


def test_save_writes_the_arrays_the_scalars_and_both_pictures(
    tmp_path: Path, data: dict[str, FigureData], drawn: dict[str, Any]
) -> None:
    about = {"title": "two trajectories"}
    paths = save("fig4", data["fig4"], drawn["fig4"], tmp_path / "new" / "place", about=about)
    assert [path.name for path in paths] == ["fig4.npz", "fig4.json", "fig4.png", "fig4.svg"]
    record = json.loads(paths[1].read_text(encoding="utf-8"))
    with np.load(paths[0], allow_pickle=False) as arrays:
        assert set(arrays) | set(record["scalars"]) == set(data["fig4"])
        for key in arrays:
            np.testing.assert_array_equal(arrays[key], data["fig4"][key])
            assert record["shapes"][key] == list(arrays[key].shape)
    assert record["lists"]["inputs"] == list(fig4.INPUTS)
    assert "states" not in record["lists"]
    for key, value in record["scalars"].items():
        assert value == data["fig4"][key].item()
    assert record["title"] == "two trajectories"
    png = paths[2].read_bytes()
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == tuple(int(200 * inches) for inches in drawn["fig4"].get_size_inches())
    assert paths[3].read_text(encoding="utf-8").startswith("<?xml")


def test_reproduce_gives_the_same_files_every_time(tmp_path: Path) -> None:
    first, second = (reproduce("fig5", tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["fig5.npz", "fig5.json", "fig5.png", "fig5.svg"]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    record = json.loads(first[1].read_text(encoding="utf-8"))
    assert (record["claim"], record["command"]) == (PRINTED["fig5"]["claim"], "steadygrad reproduce fig5")
    assert record["commit"] == provenance.commit()


def test_drawing_needs_no_pyplot_and_leaves_the_settings_alone(drawn: dict[str, Any]) -> None:
    # That it was drawn so is the fixture's doing; each figure has a canvas of its own, without a window.
    assert {type(figure.canvas).__name__ for figure in drawn.values()} == {"FigureCanvasAgg"}


def test_without_matplotlib_data_still_works_and_drawing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    numbers = fig4.data()
    for call in (lambda: fig4.draw(numbers), lambda: reproduce("fig6", tmp_path)):
        with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'steadygrad\[train\]'"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_named_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"figure must be one of 'fig2', .* not 'fig33' \(did you mean 'fig3'\?\)"):
        reproduce("fig33", tmp_path)
    with pytest.raises(ValueError, match=r"w must be above 4, .* not 3\.0"):
        bifurcation_diagram(w=3.0)
    with pytest.raises(ValueError, match=r"initial_states must lie between the folds"):
        bifurcation_diagram(5.0, initial_states=(2.0,))
    with pytest.raises(ValueError, match="grid must be a whole number of at least 12, not 3"):
        fig6.data(grid=3)
    with pytest.raises(ValueError, match="rates must hold at least one learning rate"):
        fig6.data(rates=())
    with pytest.raises(KeyError):
        FIGURES["fig1"]
    assert FIGURES["fig2"] is fig2
