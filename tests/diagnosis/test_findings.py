"""Every illness is found, nobody healthy is accused, and the advice, followed, makes the number better."""

from __future__ import annotations

import math
import re

import pytest
import torch
from clinic import ILLNESSES, B, H, I, Illness, Patient, T, at_the_end, gate_bias, healthy, layer, noise, number_of
from torch import nn

import steadygrad as sg
from steadygrad.diagnosis import KINDS, findings_of

every_illness = pytest.mark.parametrize("illness", ILLNESSES, ids=lambda illness: illness.kind)


def test_every_kind_has_a_patient() -> None:
    assert [illness.kind for illness in ILLNESSES] == list(KINDS)
    assert len(KINDS) >= 12


@every_illness
def test_it_is_found_and_said_with_its_number(illness: Illness) -> None:
    found = [each for each in illness.ill().watched().findings if each.kind == illness.kind]
    assert found
    assert illness.words in found[0].advice
    assert re.search(r"\d", found[0].said) or illness.kind == "no-gradient"
    assert str(found[0]).startswith(found[0].said)
    assert all(text.endswith(".") and "  " not in text for text in (found[0].said, found[0].advice))


@every_illness
def test_the_advice_followed_makes_the_number_better(illness: Illness) -> None:
    before, after = illness.ill().watched(), illness.cured().watched()
    finding = next(each for each in before.findings if each.kind == illness.kind)
    now = [each for each in after.examined() if each.kind == illness.kind]
    if not now:  # with a loss at every step the question is not asked; its number is still there
        assert illness.kind == "late-loss"
        assert min(cell.reached for cell in after.looks[-1].cells) > 2 * finding.number
        return
    better = max(each.number for each in now) if finding.ill_above else min(each.number for each in now)
    assert better < finding.number if finding.ill_above else better > finding.number
    assert not any(each.is_ill for each in now)


HEALTHY = healthy()


@pytest.mark.parametrize("name", HEALTHY)
def test_nobody_healthy_is_accused(name: str) -> None:
    watch = HEALTHY[name].watched()
    assert [str(finding) for finding in watch.findings] == []
    assert len(watch.examined()) > 3


def test_healthy_networks_are_asked_about_every_kind() -> None:
    asked = {each.kind for patient in healthy().values() for each in patient.watched().examined()}
    assert asked == set(KINDS)


def test_the_most_important_comes_first() -> None:
    found = [each.kind for each in Patient(layer(nn.LSTM), noise(300.0)).watched().findings]
    assert found == sorted(found, key=list(KINDS).index)
    assert len(found) >= 2


def test_one_odd_batch_accuses_nobody() -> None:
    rnn = gate_bias(layer(nn.LSTM), 1, 4.1)
    with sg.watch(rnn, every=1) as watch:
        for scale in (1.0, 1.0, 60.0, 1.0, 1.0):
            at_the_end(rnn(noise(scale))[0]).backward()
    assert watch.findings == []


@pytest.mark.parametrize("kind", [sg.RNN, sg.GRU, sg.LSTM])
def test_alpha_makes_the_horizon_longer(kind: type[nn.Module]) -> None:
    """The first advice to those who forget: the same training with and without it."""

    def after_training(alpha: float) -> float:
        torch.manual_seed(0)
        rnn, read = kind(I, H, alpha=alpha), nn.Linear(H, 2)  # pyright: ignore[reportCallIssue]
        optimizer = torch.optim.Adam([*rnn.parameters(), *read.parameters()], lr=0.003)
        draw = torch.Generator().manual_seed(1)
        watch = sg.watch(rnn, every=1)
        for _ in range(120):
            x = torch.randn(T, B, I, generator=draw)
            optimizer.zero_grad()
            nn.functional.cross_entropy(read(rnn(x)[0][-1]), (x[0, :, 0] > 0).long()).backward()
            nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
            optimizer.step()
        return number_of(watch, "forgets")

    assert after_training(1.0) > 1.5 * after_training(0.0)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_remember_makes_the_horizon_longer(kind: type[nn.Module]) -> None:
    ill, cured = layer(kind), sg.init.remember_(layer(kind), 4.1)
    before, after = (number_of(Patient(rnn, noise()).watched(), "forgets") for rnn in (ill, cured))
    assert before < 0.25 < 0.9 < after


def test_advice_names_the_layers_own_alpha() -> None:
    ways = {}
    for name, rnn in {"torch": layer(nn.GRU), "none": layer(sg.GRU), "some": layer(sg.GRU, alpha=0.5)}.items():
        ways[name] = next(each.advice for each in Patient(rnn, noise()).watched().findings if each.kind == "forgets")
    assert "sg.convert(model, alpha=1.0)" in ways["torch"]
    assert "layer.alpha = 1.0" in ways["none"]
    assert "raise its alpha from 0.5 to 1" in ways["some"].lower()


def test_advice_names_only_what_exists() -> None:
    for illness in ILLNESSES:
        for finding in illness.ill().watched().findings:
            for path in re.findall(r"sg\.([A-Za-z_.]*[A-Za-z_])", finding.advice):
                target = sg
                for part in path.split("."):
                    target = getattr(target, part)


def test_faults_name_their_origin() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.high = layer(nn.GRU), layer(nn.GRU, H, H)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.high(self.low(x)[0])[0]

    x = noise()
    x[11, 2] = math.nan
    finding = Patient(Deep(), x).watched().findings[0]
    assert finding.kind == "not-finite"
    assert finding.said.startswith("low l0: the input of step 11 is not finite, first at update 0")
    assert "data" in finding.advice


def test_a_gradient_scaler_is_no_clipping() -> None:
    rnn = layer(nn.GRU)
    optimizer = torch.optim.SGD(rnn.parameters(), lr=0.001)
    with sg.watch(rnn, every=1, optimizer=optimizer) as watch:
        for _ in range(12):
            optimizer.zero_grad()
            (1024 * rnn(noise())[0].square().mean()).backward()
            for parameter in rnn.parameters():
                assert parameter.grad is not None
                parameter.grad /= 1024  # what GradScaler.unscale_ does
            optimizer.step()
    assert number_of(watch, "clips-always") == 0.0


def test_findings_can_be_made_from_looks_alone() -> None:
    watch = Patient(layer(nn.LSTM), noise()).watched()
    assert [each.kind for each in findings_of(watch.looks)] == [each.kind for each in watch.findings]
