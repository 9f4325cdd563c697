"""When a run tests its network, which weights it keeps, and when it stops.

BySuccess: problems that draw their sequences

    every `check_every`       test on fresh sequences, look at the gradients, write a line
    after the first success   stop, or polish: train on and keep the weights that err least at twice the longest length, for
                              a network that has solved its lengths may keep what it saw for 200 steps and no longer
    at the end                test the weights that were not tested yet

A test begins with few sequences and goes on to all of them only if success is likely. Its sequences come from a stream that
only the seed and the number of updates decide.

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
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..reproducible import stream
from ..snapshots import measured, snapshot
from ..storage import State, finite, starting_with
from .evaluation import Score, figure, look, score
from .files import Result
from .methods import Diverged
from .network import Tally

if TYPE_CHECKING:
    from .loop import Loop
    from .network import Network

PROMISE, AT_LEAST = 5.0, 0.01
"""All sequences are tested if the first are wrong in at most 5 times the share allowed, or 1 %, whichever is more."""
BEST = "best."  # what the names of the best weights begin with in a checkpoint
LINES = 10
"""Lines of metrics in an epoch, evenly spaced, with the one at its end; fewer where it has fewer updates."""


class _Judge:
    def __init__(self, loop: Loop) -> None:
        self.loop, self.config, self.problem = loop, loop.config, loop.problem
        self.learner, self.feed = loop.learner, loop.learner.feed

    def begin(self) -> None:
        """What comes before the first update."""


@dataclass(frozen=True)
class Candidate:
    """A test: the weights, and what it found; `beyond`: the error at longer lengths (their mean), where it was tested."""

    updates: int
    score: Score
    weights: dict[str, Tensor]
    beyond: float | None = None

    @property
    def rank(self) -> tuple[float, float, float]:
        """Fewer wrong is better, beyond the longest length first; of equals, the smaller loss."""
        loss = self.score.loss
        beyond = 1.0 if self.beyond is None else self.beyond
        return beyond, self.score.error, loss if math.isfinite(loss) else math.inf


class BySuccess(_Judge):
    """The judge of a problem that draws its sequences.

    `solved` are the updates and seconds until the first success, `polishing` is (since, for so many) updates after it.
    """

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self.best: Candidate | None = None
        self.solved: tuple[int, float] | None = None
        self.polishing: tuple[int, int] | None = None
        self.horizon: int | None = None
        self.wrong_beyond: list[float] = []
        self._tested = perf_counter()

    @property
    def done(self) -> int:
        return self.learner.updates

    @property
    def best_weights(self) -> tuple[int, dict[str, Tensor]] | None:
        return None if self.best is None else (self.best.updates, self.best.weights)

    def begin(self) -> None:
        if self.best is None:  # a new run, not one that goes on from a checkpoint
            self._test()
            self.loop.save()

    def end(self, limit: int) -> str | None:
        if self._finished():
            return "solved"
        return "max_updates" if self.done >= limit else None

    def after_update(self) -> None:
        if self.done % self.config.check_every == 0:
            self._test()

    def test(self, network: Network, updates: int, all_of_them: bool = False) -> Score:
        """Test on a few fresh sequences, and then on all of them if success is likely (or they are asked for)."""
        config = self.config
        if config.check_sequences < config.test_sequences and not all_of_them:
            few = score(network, config.length, config.check_sequences, stream(config.seed, "few", updates))
            if few.error > max(PROMISE * config.success, AT_LEAST):
                return few
        return score(network, config.length, config.test_sequences, stream(config.seed, "test", updates))

    def test_beyond(self, network: Network, found: Score, updates: int) -> list[float]:
        """The error at longer lengths: with `latch` and no Ω at those it goes by; at twice the longest length for a network to
        be polished, if it has solved its own; else none."""
        config, latch = self.config, self.learner.latch
        longest, sequences = config.length[1], config.check_sequences
        if latch is not None and latch.alpha == 0:
            streams = {T: stream(config.seed, "beyond", updates, T) for T in latch.tested_lengths}
            return [score(network, (T, T), max(1, sequences // 2), draws).error for T, draws in streams.items()]
        if config.after_success == "polish" and self._solves(found):
            draws = stream(config.seed, "beyond", updates)
            return [score(network, (2 * longest, 2 * longest), sequences, draws).error]
        return []

    def consider(self, candidate: Candidate, seconds: float) -> bool:
        """Keep the weights if none before were better, and return whether this is the first success."""
        solves = self._solves(candidate.score)
        first = solves and self.solved is None
        if first:
            self.solved = candidate.updates, seconds
        # once solved, only what solves it too can be better
        if first or self.best is None or (candidate.rank < self.best.rank and (solves or self.solved is None)):
            self.best = candidate
        return first

    def state(self) -> dict[str, Any]:
        best, (updates, seconds) = None, self.solved or (None, None)
        if self.best is not None:
            found = {name: finite(value) for name, value in vars(self.best.score).items()}
            best = {"updates": self.best.updates, "beyond": self.best.beyond, **found}
        success = {"updates": updates, "seconds": seconds, "best": best}
        return {"success": success, "polishing": self.polishing, "horizon": self.horizon}

    def load_state(self, state: State) -> None:
        success = state["success"]
        if success["updates"] is not None:
            self.solved = success["updates"], success["seconds"]
        if (best := success["best"]) is not None:
            loss = math.inf if best["loss"] is None else best["loss"]
            found = Score(best["error"], best["errors"], loss, best["sequences"])
            # version 0.1.0 wrote 0 for what was not tested
            is_tested = self.solved is not None or self.config.latch is not None
            beyond = best["beyond"] if is_tested else None
            self.best = Candidate(best["updates"], found, starting_with(BEST, state), beyond)
        self.polishing = None if state["polishing"] is None else tuple(state["polishing"])
        self.horizon = state.get("horizon")

    def result(self, reason: str) -> Result:
        updates = self.done
        if reason in ("max_updates", "max_seconds") and updates % self.config.check_every:
            # the weights since the last test may be the best. The checkpoint, written before, does not know of it
            self.consider(self._found(), self.loop.seconds)
            if self._finished():
                reason = "solved"
        best = self.best
        if best is None:
            raise RuntimeError("a run must have been tested before its result")
        found = best.score
        if found.sequences != self.config.test_sequences and not reason.startswith("interrupted"):
            found = self.test(self.loop.network_with(best.weights), updates, all_of_them=True)
        total = updates, self.loop.seconds
        (first, after), seconds = self.solved or total, round(total[1], 3)
        scores: dict[str, Any] = {"error": found.error, "errors": found.errors, "horizon": self.horizon}
        solved = self.solved is not None
        return Result(reason, first, round(after, 3), updates, seconds, best.updates, solved=solved, **scores)

    def _solves(self, found: Score) -> bool:
        """Few enough of all sequences are wrong: a test of a few can look better by chance."""
        return found.sequences == self.config.test_sequences and found.error <= self.config.success

    def _finished(self) -> bool:
        if self.solved is None or self.best is None:
            return False
        if self.learner.latch is not None:
            return self.learner.latch.is_done
        # nothing is left to be gained where it errs no more beyond its lengths
        return self.polishing is None or not self.best.beyond or self.done >= sum(self.polishing)

    def _found(self) -> Candidate:
        tested = self.learner.tested
        found = self.test(tested, self.done)
        self.wrong_beyond = beyond = self.test_beyond(tested, found, self.done)
        mean = sum(beyond) / len(beyond) if beyond else None
        return Candidate(self.done, found, self.learner.weights(), mean)

    def _test(self) -> None:
        learner, updates = self.learner, self.done
        learner.method.judge()
        test = self._found()
        found, (low, high) = test.score, self.feed.lengths.now
        seen = None
        if self.config.network != "echo-state":  # where no error goes back
            seen = look(learner.network, high, stream(self.config.seed, "look", updates))
        before, self._tested, made = self._tested, perf_counter(), learner.method.since.updates
        line: dict[str, Any] = {"updates": updates, **learner.method.summary(), "test_loss": found.loss}
        line |= {"error": found.error, "errors": found.errors, "tested": found.sequences, "beyond": test.beyond}
        line |= {name: getattr(seen, name, None) for name in ("omega", "active", "spectral_radius")}
        self.horizon = 0 if seen is None else min(seen.horizon, self.config.truncate or seen.horizon)
        line |= {"horizon": self.horizon, "low": low, "high": high, "alpha": learner.alpha}
        line |= {"lr": learner.lr if learner.method.has_rate else None}
        line |= {"updates_per_second": made / (self._tested - before), "seconds": self.loop.seconds}
        self.loop.write_line(line, seen)
        if self.consider(test, self.loop.seconds) and self.config.after_success == "polish":
            self._polish(test)
        if news := learner.next_stage(self.wrong_beyond, line["loss"], self.solved is not None):
            self.loop.say(f"{news} ({updates:,} updates)")

    def _polish(self, test: Candidate) -> None:
        config, updates = self.config, test.updates
        # whole intervals, so that the last weights are tested too
        intervals = max(1, round(config.polish * updates / config.check_every))
        further = min(intervals * config.check_every, config.max_updates - updates)
        if further <= 0:
            return
        self.polishing = (updates, further)
        self.feed.lengths.now = config.length
        if test.beyond:
            self.loop.say(
                f"solved after {updates:,} updates ({100 * test.score.error:.2f} % wrong); trains on for up to {further:,} "
                f"to err less at longer lengths ({100 * test.beyond:.1f} % at {2 * config.length[1]} steps); "
                "--after-success stop ends here"
            )


class _Stopped(Exception):
    """The run was interrupted while the data are read for the result."""


class ByValidation(_Judge):
    """The judge of a data set; `best_epoch` and `valid` are of the best validation, 0 and infinite before the first."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self.best_epoch, self.best_updates, self.valid = 0, 0, math.inf
        self._weights: dict[str, Tensor] = {}
        self._sample = next(self.problem.epoch(0))
        self._of_epoch = self.problem.updates_per_epoch  # music goes through all of its pieces to count them
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
        done, of_epoch = self.learner.updates, self._of_epoch
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

    def load_state(self, state: State) -> None:
        best, self._weights = state["best"], starting_with(BEST, state)
        self.best_epoch, self.best_updates = best["epoch"], best["updates"]
        self.valid = math.inf if best["valid"] is None else best["valid"]
        self._learning, self._lined = state["learning"], tuple(state["lined"])

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
