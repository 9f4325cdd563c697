"""When a run tests its network, which weights it keeps, and when it stops.

BySuccess: problems that draw their sequences

    every `check_every`       test on fresh sequences, look at the gradients, write a line
    after the first success   stop, or polish: train on and keep the weights that err least at twice the longest length
    at the end                test the weights that were not tested yet

ByValidation: problems with a data set

    ten times an epoch        write a line: training cost since the last, the gradients, Ω
    at the end of an epoch    validate, look at the gradients and at W_rec's spectrum, write a line, keep the best weights
    at the end                read all parts of the data with the best weights

Both have `done` (how far the run has come, in the unit that the displays count), `best_weights` (after how many updates they
were found, and they themselves), `begin()` before the first update, `end(limit)` before each (why the run ends here, or None),
`after_update()`, `result(reason)`, and for checkpoints `state()` and `load_state()`.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..reproducible import stream
from ..snapshots import Snapshot, measured, snapshot
from ..storage import finite
from .evaluation import Score, Success, figure
from .methods import Diverged
from .network import Tally
from .result import Result

if TYPE_CHECKING:
    from .loop import Loop
    from .network import Network

LINES = 10
"""So many lines of metrics in an epoch, at even distances, the one at its end included; fewer where it has fewer updates."""


class _Judge:
    def __init__(self, loop: Loop) -> None:
        self.loop, self.config, self.problem = loop, loop.config, loop.problem
        self.learner, self.feed = loop.learner, loop.learner.feed

    def begin(self) -> None:
        """What comes before the first update."""


class BySuccess(_Judge):
    """The judge of a problem that draws its sequences; `polishing` is (since, for so many) updates, once it is solved."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self.success = Success(loop.config)
        self.polishing: tuple[int, int] | None = None
        self.horizon: int | None = None
        self._tested = perf_counter()

    @property
    def done(self) -> int:
        return self.learner.updates

    @property
    def best_weights(self) -> tuple[int, dict[str, Tensor]] | None:
        best = self.success.best
        return None if best is None else (best.updates, best.weights)

    def begin(self) -> None:
        if self.success.best is None:  # a new run, not one that goes on from a checkpoint
            self._test()
            self.loop.save()

    def end(self, limit: int) -> str | None:
        if self._finished():
            return "solved"
        return "max_updates" if self.done >= limit else None

    def after_update(self) -> None:
        if self.done % self.config.check_every == 0:
            self._test()

    def state(self) -> dict[str, Any]:
        return {"success": self.success.state(), "polishing": self.polishing, "horizon": self.horizon}

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.success.load_state(weights, values["success"])
        self.polishing = None if values["polishing"] is None else tuple(values["polishing"])
        self.horizon = values.get("horizon")

    def result(self, reason: str) -> Result:
        success, updates = self.success, self.done
        if reason in ("max_updates", "max_seconds") and updates % self.config.check_every:
            # the weights since the last test may be the best. The checkpoint, written before, does not know of it
            found, beyond = self._found()
            success.consider(found, updates, self.loop.seconds, self.learner.weights(), beyond)
            if self._finished():
                reason = "solved"
        best = success.best
        if best is None:
            raise RuntimeError("a run must have been tested before its result")
        found = best.score
        if not success.is_whole(found) and not reason.startswith("interrupted"):
            found = success.test(self.loop.network_with(best.weights), updates, all_of_them=True)
        seconds = round(self.loop.seconds, 3)
        first = (updates, seconds) if success.updates is None else (success.updates, round(success.seconds or 0.0, 3))
        scores: dict[str, Any] = {"error": found.error, "errors": found.errors, "horizon": self.horizon}
        return Result(reason, *first, updates, seconds, best.updates, solved=success.solved, **scores)

    def _finished(self) -> bool:
        best = self.success.best
        if not self.success.solved or best is None:
            return False
        # nothing is left to be gained where it errs no more beyond its lengths
        return self.polishing is None or best.beyond == 0.0 or self.done >= sum(self.polishing)

    def _found(self) -> tuple[Score, float | None]:
        tested = self.learner.tested
        found = self.success.test(tested, self.done)
        return found, self.success.test_beyond(tested, found, self.done)

    def _test(self) -> None:
        learner, updates = self.learner, self.done
        learner.method.judge()
        found, beyond = self._found()
        low, high = self.feed.lengths.now
        seen = None
        if self.config.network != "echo-state":  # where no error goes back
            seen = look(learner.network, high, stream(self.config.seed, "look", updates))
        before, self._tested, made = self._tested, perf_counter(), learner.method.since.updates
        line: dict[str, Any] = {"updates": updates, **learner.method.summary(), "test_loss": found.loss}
        line |= {"error": found.error, "errors": found.errors, "tested": found.sequences, "beyond": beyond}
        line |= {name: getattr(seen, name, None) for name in ("omega", "active", "spectral_radius")}
        self.horizon = 0 if seen is None else min(seen.horizon, self.config.truncate or seen.horizon)
        line |= {"horizon": self.horizon, "low": low, "high": high, "alpha": learner.alpha}
        line |= {"lr": learner.lr if learner.method.has_rate else None}
        line |= {"updates_per_second": made / (self._tested - before), "seconds": self.loop.seconds}
        self.loop.write_line(line, seen)
        first = self.success.consider(found, updates, self.loop.seconds, learner.weights(), beyond)
        if first and self.config.after_success == "polish":
            self._polish(found, beyond or 0.0)

    def _polish(self, found: Score, beyond: float) -> None:
        config, updates = self.config, self.done
        # whole intervals, so that the last weights are tested too
        intervals = max(1, round(config.polish * updates / config.check_every))
        further = min(intervals * config.check_every, config.max_updates - updates)
        if further <= 0:
            return
        self.polishing = (updates, further)
        self.feed.lengths.now = config.length
        if beyond > 0:
            self.loop.say(
                f"solved after {updates:,} updates ({100 * found.error:.2f} % wrong); trains on for up to {further:,} to "
                f"err less at longer lengths ({100 * beyond:.1f} % at {2 * config.length[1]} steps); "
                f"--after-success stop ends here"
            )


def look(network: Network, length: int, generator: torch.Generator) -> Snapshot:
    """Measure the gradients of a network on one batch of sequences of `length`, drawn for this alone; none is kept."""
    batch = network.problem.sample(network.config.batch, length, generator)
    parameters = [parameter for _, parameter in network.trained()]

    def errors() -> None:
        torch.autograd.grad(network.problem.loss(network.taught(batch), batch), parameters)

    def of_last() -> None:
        y = network.taught(batch)
        (error,) = torch.autograd.grad(network.problem.loss(y, batch), y, retain_graph=True)
        error[:-1] = 0
        torch.autograd.grad(y, parameters, error)

    counted = batch.steps.stop - batch.steps.start
    return snapshot(network.rnn, errors, None if counted == 1 else of_last)


class _Stopped(Exception):
    """The run was interrupted while the data are read for the result."""


class ByValidation(_Judge):
    """The judge of a data set; `best_epoch` and `valid` are of the best validation, 0 and infinite before the first."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self.best_epoch, self.best_updates, self.valid = 0, 0, math.inf
        self._weights: dict[str, Tensor] = {}
        self._sample = next(self.problem.epoch(0))
        self._learning, self._at = 0.0, perf_counter()
        self._lined: tuple[int, int, float] = (0, 0, 0.0)

    @property
    def done(self) -> int:
        return self.feed.tokens

    @property
    def best_weights(self) -> tuple[int, dict[str, Tensor]] | None:
        return (self.best_updates, self._weights) if self.best_epoch else None

    def end(self, limit: int) -> str | None:
        if self.feed.at_end_of_epoch:
            self._end_epoch()
        done = self.feed.epoch - 1
        if done >= limit:
            return "epochs"
        if self.config.patience is not None and done - self.best_epoch >= self.config.patience:
            return "patience"
        self._at = perf_counter()
        return None

    def after_update(self) -> None:
        self._learning += perf_counter() - self._at
        done, of_epoch = self.learner.updates, self.problem.updates_per_epoch
        if LINES * done // of_epoch > LINES * (done - 1) // of_epoch and not self.feed.at_end_of_epoch:
            self.learner.method.judge()
            self._line(None)

    def _consider(self, valid: float) -> None:
        """Keep the weights if they are better than any before."""
        if valid < self.valid:
            self.best_epoch, self.best_updates, self.valid = self.feed.epoch, self.learner.updates, valid
            self._weights = self.learner.weights()

    def state(self) -> dict[str, Any]:
        best = {"epoch": self.best_epoch, "updates": self.best_updates, "valid": finite(self.valid)}
        return {"best": best, "learning": self._learning, "lined": list(self._lined)}

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        best = values["best"]
        self._weights, self.best_epoch, self.best_updates = weights, best["epoch"], best["updates"]
        self.valid = math.inf if best["valid"] is None else best["valid"]
        self._learning, self._lined = values["learning"], tuple(values["lined"])

    def result(self, reason: str) -> Result:
        try:
            scores: dict[str, Any] = self._scores(reason)
        except _Stopped:
            reason, scores = self.loop.interrupted or "interrupted", {}
        total = self.learner.updates, round(self.loop.seconds, 3)
        pace = round(self.feed.tokens / self._learning, 1) if self._learning else 0.0
        scores |= {"best_epoch": self.best_epoch, "epochs": self.feed.epoch - 1, "tokens_per_second": pace}
        return Result(reason, *total, *total, self.best_updates, valid=finite(self.valid), **scores)

    def _end_epoch(self) -> None:
        self.learner.method.judge()
        valid = figure(self.learner.network, self.problem, "valid")
        if not math.isfinite(valid):
            raise Diverged(f"the validation costs {valid:.3g} after {self.learner.updates:,} updates")
        self._line(valid)
        self._consider(valid)
        self.learner.next_epoch()

    def _line(self, valid: float | None) -> None:
        """Write a line: of the whole epoch where it was validated, else of what came since the last line."""
        learner, feed, network = self.learner, self.feed, self.learner.network

        def backward(last_alone: bool = False) -> None:
            network.backward_chunk(self._sample, last_alone=last_alone)

        seen = None if valid is None else snapshot(network.rnn, backward, lambda: backward(last_alone=True))
        flow = measured(network.rnn, backward) if seen is None else seen
        (updates, tokens, before), self._lined = self._lined, (learner.updates, feed.tokens, self._learning)
        since = max(self._learning - before, 1e-9)
        train = (feed.since if valid is None else feed.whole).mean * self.problem.per_nat
        line: dict[str, Any] = {"epoch": feed.epoch, "updates": learner.updates, "tokens": feed.tokens, "train": train}
        line |= {"valid": valid, **learner.method.summary(), "omega": flow.omega, "active": flow.active}
        line |= {"spectral_radius": None if seen is None else seen.spectral_radius, "horizon": flow.horizon}
        line |= {"lr": learner.lr, "alpha": learner.alpha, "updates_per_second": (learner.updates - updates) / since}
        line |= {"tokens_per_second": (feed.tokens - tokens) / since, "seconds": self.loop.seconds}
        feed.since = Tally()
        self.loop.write_line(line, seen)

    def _scores(self, reason: str) -> dict[str, Any]:
        """The cost of the best weights on training and test data; empty if the run is to go on or has no weights."""
        if reason.startswith("interrupted"):
            return {}
        if reason == "max_seconds" and self.feed.whole.predictions:
            # the weights since the last validation may be the best. The checkpoint, written before, does not know of it
            self._consider(figure(self.learner.network, self.problem, "valid", self._pulse))
        if not self.best_epoch:
            return {}
        network = self.loop.network_with(self._weights)
        return {split: figure(network, self.problem, split, self._pulse) for split in ("train", "test")}

    def _pulse(self) -> None:
        if self.loop.interrupted is not None:
            raise _Stopped
