"""trials in a shared storage: each taken by one worker, and taken up again where that worker is killed

A trial of the plan has a place, 0 to `num_trials` - 1, and one or more attempts; an attempt is a trial of Optuna's with
`place` and `attempt` among its attributes. Whoever wants work adds the next place, or the next attempt of a place whose
worker gives no sign of life, and then takes what waits. Two workers may add the same attempt: the one with the lower
number counts, and whoever takes the other drops it. Before an attempt runs, the one before it is failed, in the one
transaction that a worker who comes back too late would need as well: it ends as one or the other, never both.

What all workers have in common is the attribute `plan` of a trial that is added as failed. Several workers that begin a
search at once may each add one; the lowest number counts there, too.
"""

import os
import platform
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from diskoop.errors import InputError, quoted
from diskoop.search.plan import Range, SearchPlan
from diskoop.search.storage import failures

if TYPE_CHECKING:
    import optuna
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

MISSED_BEATS = 4  # signs of life that a worker may miss
MAX_LOST = 3  # workers that one trial may cost
STARTUP_TRIALS = 10  # that TPE draws at random
# Trials before their median means something, and when a trial is compared with it, in thousandths of its training: who
# is asked at every validation to be above the median is pruned sooner or later.
MEDIAN_TRIALS, MEDIAN_INTERVAL = 8, 250
HALVING_START = 100  # thousandths of a training

WORKER = f"{platform.node()}:{os.getpid()}"  # this one, in the storage

TrialStateName = Literal["waiting", "running", "complete", "pruned", "failed"]


class TakenOver(Exception):  # noqa: N818 - said in the past
    """Another worker goes on with this trial: this one gave no sign of life for too long."""


@dataclass(frozen=True)
class TrialRecord:
    """What is known of a trial, in all its attempts."""

    place: int
    state: TrialStateName
    params: Mapping[str, Any]
    value: float | None = None  # the objective of a complete one
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None  # of training
    attempts: int = 1
    explained: float | None = None  # at its last validation
    worker: str | None = None  # host and process of the last attempt
    error: str | None = None  # why it failed

    @property
    def name(self) -> str:
        return f"{self.place:03d}"

    @property
    def is_settled(self) -> bool:
        return self.state in ("complete", "pruned", "failed")


class ClaimedTrial:
    """A trial that this worker has taken; it gives signs of life while it is used as a context."""

    def __init__(self, queue: "TrialQueue", trial: "optuna.Trial") -> None:
        self.queue, self.trial = queue, trial
        self.place: int = trial.user_attrs["place"]
        self.attempt: int = trial.user_attrs["attempt"]
        self.is_lost = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    @property
    def name(self) -> str:
        return f"{self.place:03d}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        """Count up an attribute until the end; a storage that fails for a while is asked again.

        The first one says who this worker is.
        """
        from optuna.exceptions import UpdateFinishedTrialError

        count = 0
        while not self._ended.wait(self.queue.plan.heartbeat if count else 0):
            count += 1
            try:
                if count == 1:
                    self.queue.storage.set_trial_user_attr(self.trial._trial_id, "worker", WORKER)
                self.queue.storage.set_trial_user_attr(self.trial._trial_id, "beat", count)
            except UpdateFinishedTrialError:
                self.is_lost = True
                return
            except failures():
                continue

    def suggest(self) -> dict[str, Any]:
        """The values of this trial, the same in all its attempts."""
        return {name: _suggest(self.trial, name, values) for name, values in self.queue.plan.space.items()}

    def report(self, progress: float, value: float) -> bool:
        """Tell a validation's figure; whether the trial should end here.

        Args:
            progress: share of the training that is done.
            value: larger is better.
        """
        from optuna.exceptions import UpdateFinishedTrialError

        step = round(1000 * progress)
        if self.is_lost:
            raise TakenOver
        known = self.queue.frozen(self.trial).intermediate_values
        try:
            if step not in known:  # an earlier attempt came further than its checkpoint
                self.trial.report(value, step)
        except UpdateFinishedTrialError:
            raise TakenOver from None
        return progress < 1 and self.trial.should_prune()

    def finish(self, state: TrialStateName, value: float | None = None, **facts: Any) -> None:
        """End this trial; TakenOver if another worker has taken it up by now."""
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            for name, fact in facts.items():
                self.queue.storage.set_trial_user_attr(self.trial._trial_id, name, fact)
            self.queue.end(self.trial._trial_id, state, value)
        except UpdateFinishedTrialError:
            raise TakenOver from None

    def release(self) -> None:
        """Let any worker go on with this trial, at once."""
        frozen = self.queue.frozen(self.trial)
        self.queue.add_attempt(frozen, frozen.user_attrs["lost"])
        with _unless_finished():
            self.queue.end(self.trial._trial_id, "failed")


class TrialQueue:
    """The trials of a plan.

    Args:
        storage: shared by all workers.
        name: of the search in it.
        plan: the same for all workers, but for its number of trials and what differs between machines.
    """

    def __init__(self, storage: "BaseStorage", name: str, plan: SearchPlan) -> None:
        import optuna

        self.storage, self.name, self.plan = storage, name, plan
        self.study = optuna.create_study(
            storage=storage, study_name=name, direction="maximize", load_if_exists=True, pruner=_pruner(plan)
        )
        identity = plan.identity()
        known = self._common_plan()
        if known is None:
            failed = optuna.trial.TrialState.FAIL
            self.study.add_trial(optuna.create_trial(state=failed, user_attrs={"plan": identity}))
            known = self._common_plan()
            assert known is not None
        if known != identity:
            differing = [key for key in identity if known.get(key) != identity[key]]
            raise InputError(
                f"the storage holds another search called {quoted(name)}; what differs: {', '.join(differing)}; give "
                "this plan a name, or another --out"
            )
        self._seen: dict[int, tuple[int | None, float]] = {}  # trial -> its last sign of life, and when it was new

    def _common_plan(self) -> dict[str, Any] | None:
        """The plan that was added first; None where there is none yet."""
        trials = self.storage.get_all_trials(self.study._study_id, deepcopy=False)
        plans = {each.number: each.user_attrs["plan"] for each in trials if "plan" in each.user_attrs}
        return plans[min(plans)] if plans else None

    # --- work

    def take(self) -> ClaimedTrial | None:
        """A trial for this worker; None where all are finished or taken."""
        while True:
            trials = self._attempts()
            self._replace_lost(trials)
            waiting = [each for each in self._attempts() if each.state.name == "WAITING"]
            if not waiting:
                if not self._add_next(trials):
                    return None
                continue
            for frozen in sorted(waiting, key=lambda each: (each.user_attrs["place"], each.number)):
                if (claim := self._claim(frozen)) is not None:
                    return claim

    def _claim(self, frozen: "FrozenTrial") -> ClaimedTrial | None:
        """This waiting attempt, unless another worker was faster or it has become superfluous."""
        import optuna
        from optuna.trial import TrialState

        taken = False
        with _unless_finished():
            taken = self.storage.set_trial_state_values(frozen._trial_id, TrialState.RUNNING)
        if not taken:
            return None
        with _unless_finished():  # others judge by it whether this worker is gone
            self.storage.set_trial_user_attr(frozen._trial_id, "heartbeat", self.plan.heartbeat)
        if not self._is_needed(frozen):
            with _unless_finished():
                self.end(frozen._trial_id, "failed")
            return None
        # A study of its own: samplers see the trials that its first draw has seen.
        sampler = _sampler(self.plan, frozen.user_attrs["place"])
        study = optuna.load_study(study_name=self.name, storage=self.storage, sampler=sampler, pruner=self.study.pruner)
        study.get_trials(deepcopy=False)  # its cache knows no trial that it has not read
        return ClaimedTrial(self, optuna.Trial(study, frozen._trial_id))

    def _is_needed(self, frozen: "FrozenTrial") -> bool:
        """Whether no other attempt does the same, and none before has come to its end."""
        place, attempt = frozen.user_attrs["place"], frozen.user_attrs["attempt"]
        same = [each for each in self._attempts() if each.user_attrs["place"] == place]
        if any(each.user_attrs["attempt"] == attempt and each.number < frozen.number for each in same):
            return False
        for each in same:
            if each.user_attrs["attempt"] < attempt:
                with _unless_finished():
                    self.end(each._trial_id, "failed")
        return not any(_is_settled(each) for each in self._attempts() if each.user_attrs["place"] == place)

    def _add_next(self, trials: "Sequence[FrozenTrial]") -> bool:
        """Add the next place of the plan; False where all are there."""
        place = 1 + max((each.user_attrs["place"] for each in trials), default=-1)
        if place >= self.plan.num_trials:
            return False
        point = self.plan.grid_point(place) if self.plan.sampler == "grid" else {}
        self.study.enqueue_trial(point, user_attrs={"place": place, "attempt": 0, "lost": 0})
        return True

    def _replace_lost(self, trials: "Sequence[FrozenTrial]") -> None:
        """Add another attempt of every trial whose worker has given no sign of life for a while.

        Signs of life are counted, and the time between them is measured on this machine: clocks need not agree.
        """
        now = time.monotonic()
        first: dict[tuple[int, int], int] = {}  # place and attempt -> number of the one that counts
        for each in sorted(trials, key=lambda each: each.number):
            first.setdefault((each.user_attrs["place"], each.user_attrs["attempt"]), each.number)
        for each in trials:
            place, attempt = each.user_attrs["place"], each.user_attrs["attempt"]
            if each.state.name != "RUNNING" or first[place, attempt] != each.number:
                continue
            beat = each.user_attrs.get("beat")
            if each.number not in self._seen or self._seen[each.number][0] != beat:
                self._seen[each.number] = (beat, now)
                continue
            grace = MISSED_BEATS * each.user_attrs.get("heartbeat", self.plan.heartbeat)
            if now - self._seen[each.number][1] > grace and (place, attempt + 1) not in first:
                self._replace(each)

    def _replace(self, frozen: "FrozenTrial") -> None:
        lost = frozen.user_attrs["lost"] + 1
        if lost < MAX_LOST:
            self.add_attempt(frozen, lost)
            return
        with _unless_finished():
            error = f"{lost} workers ended without a word while it ran"
            self.storage.set_trial_user_attr(frozen._trial_id, "error", error)
            self.end(frozen._trial_id, "failed")

    def add_attempt(self, frozen: "FrozenTrial", lost: int) -> None:
        """Add the next attempt of a trial, with its values and all that it has reported.

        Args:
            frozen: the attempt before.
            lost: how many workers the trial has cost so far.
        """
        import optuna
        from optuna.trial import TrialState

        attributes = {
            "place": frozen.user_attrs["place"],
            "attempt": frozen.user_attrs["attempt"] + 1,
            "lost": lost,
        }
        self.study.add_trial(
            optuna.create_trial(
                state=TrialState.WAITING,
                params=frozen.params,
                distributions=frozen.distributions,
                user_attrs=attributes,
                system_attrs={key: value for key, value in frozen.system_attrs.items() if key == "fixed_params"},
                intermediate_values=frozen.intermediate_values,
            )
        )

    def end(self, trial_id: int, state: TrialStateName, value: float | None = None) -> None:
        """Set the final state of an attempt; UpdateFinishedTrialError if it has one."""
        from optuna.trial import TrialState

        states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        self.storage.set_trial_state_values(trial_id, states[state], None if value is None else [value])

    # --- what is there

    @property
    def is_done(self) -> bool:
        """Whether every trial of the plan has come to its end."""
        return sum(each.is_settled for each in self.records()) >= self.plan.num_trials

    def frozen(self, trial: "optuna.Trial") -> "FrozenTrial":
        return self.storage.get_trial(trial._trial_id)

    def _attempts(self) -> "list[FrozenTrial]":
        return [each for each in self.study.get_trials(deepcopy=False) if "place" in each.user_attrs]

    def _places(self) -> "dict[int, list[FrozenTrial]]":
        """The attempts at each trial, the one that counts first."""
        places: dict[int, list[FrozenTrial]] = {}
        for each in self._attempts():
            places.setdefault(each.user_attrs["place"], []).append(each)
        return {place: sorted(places[place], key=_by_weight) for place in sorted(places)}

    def records(self) -> list[TrialRecord]:
        """Every trial that was begun, in the plan's order."""
        return [_record(place, attempts) for place, attempts in self._places().items()]

    def settled_attempts(self) -> dict[int, int]:
        """Which attempt has brought each trial to its end, for those that have come there."""
        return {
            place: first.user_attrs["attempt"] for place, (first, *_) in self._places().items() if _is_settled(first)
        }

    def importances(self) -> dict[str, float]:
        """How much of the objective's variance over complete trials each setting explains by itself, largest first.

        By fANOVA, on a random forest with a fixed seed; shares add up to 1. Nothing where fewer than two values of the
        objective are known.
        """
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        complete = [each for each in self.study.get_trials(deepcopy=False) if each.state.name == "COMPLETE"]
        if len({each.value for each in complete}) < 2:
            return {}
        return get_param_importances(self.study, evaluator=FanovaImportanceEvaluator(seed=0))


@contextmanager
def _unless_finished() -> Iterator[None]:
    """Leave out what another worker has done already."""
    from optuna.exceptions import UpdateFinishedTrialError

    with suppress(UpdateFinishedTrialError):
        yield


def _is_settled(frozen: "FrozenTrial") -> bool:
    """Whether an attempt has come to an end that stays."""
    return frozen.state.name in ("COMPLETE", "PRUNED") or "error" in frozen.user_attrs


def _by_weight(frozen: "FrozenTrial") -> tuple[bool, int, int]:
    return not _is_settled(frozen), -frozen.user_attrs["attempt"], frozen.number


def _record(place: int, attempts: "Sequence[FrozenTrial]") -> TrialRecord:
    chosen = attempts[0]
    state = chosen.state.name.lower().replace("fail", "failed")
    if state == "failed" and not _is_settled(chosen):
        state = "waiting"  # its worker was killed between two steps of a release
    facts = chosen.user_attrs
    reported = chosen.intermediate_values
    return TrialRecord(
        place,
        state,  # type: ignore[arg-type]  # one of the names
        chosen.params,
        chosen.value if state == "complete" else None,
        facts.get("figures", {}),
        facts.get("seconds"),
        len({each.user_attrs["attempt"] for each in attempts if each.state.name != "WAITING"}) or 1,
        reported[max(reported)] if reported else None,
        facts.get("worker"),
        facts.get("error"),
    )


def _suggest(trial: "optuna.Trial", name: str, values: Sequence[Any] | Range) -> Any:
    if not isinstance(values, Range):
        return trial.suggest_categorical(name, values)
    if values.is_whole:
        return trial.suggest_int(name, values.low, values.high, step=values.step or 1, log=values.log)
    return trial.suggest_float(name, values.low, values.high, step=values.step, log=values.log)


def _sampler(plan: SearchPlan, place: int) -> "BaseSampler":
    """The sampler of one trial, with a seed of its own: two workers must not draw alike."""
    from optuna.samplers import RandomSampler, TPESampler

    seed = int(np.random.SeedSequence([plan.seed, place]).generate_state(1)[0])
    if plan.sampler == "tpe":
        return TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, constant_liar=True)
    return RandomSampler(seed=seed)  # a grid's points are given


def _pruner(plan: SearchPlan) -> Any:
    from optuna.pruners import MedianPruner, NopPruner, SuccessiveHalvingPruner

    if plan.pruner == "median":
        return MedianPruner(MEDIAN_TRIALS, n_warmup_steps=MEDIAN_INTERVAL, interval_steps=MEDIAN_INTERVAL)
    return SuccessiveHalvingPruner(min_resource=HALVING_START) if plan.pruner == "halving" else NopPruner()
