"""No trial is run twice and none is lost, whoever takes them, and however a worker ends."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from optuna.trial import TrialState
from sqlalchemy import event

from diskoop.errors import InputError, ResourceError
from diskoop.search import trials
from diskoop.search.plan import SearchPlan
from diskoop.search.storage import hide_password, open_storage, storage_errors
from diskoop.search.trials import MAX_LOST, MEDIAN_TRIALS, MISSED_BEATS, ClaimedTrial, TakenOver, TrialQueue

HEARTBEAT = 0.05
LONG = 2 * MISSED_BEATS * HEARTBEAT  # enough for a worker to be given up


def make_plan(**changes: Any) -> SearchPlan:
    space = {"model.k": [8, 12], "loss.eig": {"low": 0.1, "high": 10, "log": True}}
    return SearchPlan.of(
        {"space": space, "sampler": "random", "trials": 4, "heartbeat": HEARTBEAT, "pruner": "none"} | changes
    )


@pytest.fixture
def name() -> str:
    return uuid4().hex  # the server's database is shared by all tests


def queue(shared: str, name: str, plan: SearchPlan | None = None) -> TrialQueue:
    """Of a worker with a connection of its own."""
    return TrialQueue(open_storage(shared), name, plan or make_plan())


def take(worker: TrialQueue) -> ClaimedTrial:
    claim = worker.take()
    assert claim is not None
    return claim


def test_workers_share_the_trials_of_a_plan(shared: str, name: str) -> None:
    """Three at once, each as fast as it can: every trial is taken once, and no two have the same values."""
    workers = [queue(shared, name, make_plan(trials=8, heartbeat=5)) for _ in range(3)]
    taken: list[tuple[int, dict[str, Any]]] = []

    def work(worker: TrialQueue) -> None:
        while (claim := worker.take()) is not None:
            with claim:
                taken.append((claim.place, claim.suggest()))
                claim.finish("complete", 0.5)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(place for place, _ in taken) == Counter(range(8))
    assert len({values["loss.eig"] for _, values in taken}) == 8
    assert workers[0].is_done
    assert [each.attempts for each in workers[0].records()] == [1] * 8


def test_sqlite_lets_nobody_between_reading_and_writing(tmp_path: Path, name: str) -> None:
    """Two connections want the same waiting trial, the second one while the first is about to write."""
    shared = f"sqlite:///{tmp_path}/a.db"
    first, second = queue(shared, name), queue(shared, name)
    first.study.enqueue_trial({}, user_attrs={"place": 0, "attempt": 0, "lost": 0})
    results: dict[str, bool] = {}

    def claim(worker: TrialQueue, who: str) -> None:
        results[who] = worker.storage.set_trial_state_values(1, TrialState.RUNNING)

    rival = threading.Thread(target=claim, args=(second, "second"))

    def interfere(*arguments: Any) -> None:
        if str(arguments[2]).startswith("UPDATE trials") and not rival.is_alive():
            rival.start()
            rival.join(0.3)  # it waits for us, so this ends by itself only where nothing is locked

    event.listen(first.storage.engine, "before_cursor_execute", interfere)  # type: ignore[attr-defined]
    claim(first, "first")
    rival.join()
    assert results == {"first": True, "second": False}


def test_values_depend_on_the_seed_alone(tmp_path: Path) -> None:
    def values(name: str, seed: int) -> list[dict[str, Any]]:
        worker = queue(f"journal:{tmp_path}/log", name, make_plan(seed=seed))
        return [take(worker).suggest() for _ in range(3)]

    assert values("a", 0) == values("b", 0) != values("c", 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_tpe_draws_where_trials_were_good(tmp_path: Path, name: str, sign: int) -> None:
    plan = make_plan(sampler="tpe", trials=30, space={"loss.eig": {"low": 0.0, "high": 1.0}})
    worker = queue(f"journal:{tmp_path}/log", name, plan)
    drawn = []
    while (claim := worker.take()) is not None:
        drawn.append(claim.suggest()["loss.eig"])
        claim.finish("complete", sign * drawn[-1])
    assert sign * sum(drawn[-10:]) / 10 > sign * (0.5 + 0.3 * sign)
    assert len(set(drawn)) == 30


def test_a_trial_whose_worker_is_gone_is_taken_up_with_its_values(either: str, name: str) -> None:
    lost, other = queue(either, name), queue(either, name, make_plan(trials=1))
    gone = take(lost)  # gives no sign of life: it is not used as a context
    values = gone.suggest()
    gone.report(0.5, 0.25)
    assert other.take() is None
    assert not other.is_done
    time.sleep(LONG)
    claim = take(other)
    assert (claim.place, claim.attempt, claim.suggest()) == (gone.place, 1, values)
    claim.report(0.5, 0.99)  # what was reported before stays
    with pytest.raises(TakenOver):  # the first one comes back too late
        gone.finish("complete", 1.0)
    with pytest.raises(TakenOver):
        gone.report(0.75, 0.5)
    claim.finish("complete", 0.75)
    (record,) = other.records()
    assert (record.state, record.value, record.attempts, record.explained) == ("complete", 0.75, 2, 0.25)
    assert other.take() is None
    assert other.is_done


def test_a_slow_worker_keeps_its_trial(either: str, name: str) -> None:
    slow, other = queue(either, name, make_plan(trials=1)), queue(either, name, make_plan(trials=1))
    with take(slow) as claim:
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            assert other.take() is None
            time.sleep(HEARTBEAT / 5)
        claim.finish("complete", 1.0)
    assert other.is_done


def test_a_worker_that_finishes_late_but_first_counts(either: str, name: str) -> None:
    """It was given up, but has come back before another one began: what waits is dropped, not run again."""
    lost, other = queue(either, name, make_plan(trials=1)), queue(either, name, make_plan(trials=1))
    gone = take(lost)
    frozen = lost.frozen(gone.trial)
    other.add_attempt(frozen, 1)
    gone.finish("complete", 0.5)
    assert other.take() is None
    assert [(each.state, each.value) for each in other.records()] == [("complete", 0.5)]


def test_two_workers_that_replace_the_same_trial_run_it_once(either: str, name: str) -> None:
    lost, other = queue(either, name, make_plan(trials=1)), queue(either, name, make_plan(trials=1))
    frozen = lost.frozen(take(lost).trial)
    lost.add_attempt(frozen, 1)
    other.add_attempt(frozen, 1)
    claim = take(other)
    assert lost.take() is None
    claim.finish("complete", 0.5)
    assert other.take() is None
    assert other.is_done


def test_a_released_trial_waits_for_no_one(tmp_path: Path, name: str) -> None:
    worker = queue(f"sqlite:///{tmp_path}/a.db", name, make_plan(heartbeat=60))
    with take(worker) as claim:
        values = claim.suggest()
        claim.release()
    assert worker.study.get_trials()[-1].params == values
    assert [each.state for each in worker.records()] == ["waiting"]
    again = take(worker)
    assert (again.place, again.attempt, again.suggest()) == (0, 1, values)


@pytest.mark.slow
def test_a_trial_that_costs_worker_after_worker_fails(tmp_path: Path, name: str) -> None:
    worker = queue(f"journal:{tmp_path}/log", name, make_plan(trials=1))
    for _ in range(MAX_LOST):
        assert worker.take() is not None
        assert worker.take() is None  # its signs of life are looked at for the first time
        time.sleep(LONG)
    assert worker.take() is None
    (record,) = worker.records()
    assert (record.state, record.error) == ("failed", f"{MAX_LOST} workers ended without a word while it ran")
    assert worker.is_done


def test_a_grid_is_tried_point_by_point(tmp_path: Path, name: str) -> None:
    plan = make_plan(sampler="grid", space={"model.k": [8, 12], "spectrum.static": {"low": 1, "high": 3}}, trials=None)
    worker = queue(f"journal:{tmp_path}/log", name, plan)
    points = []
    while (claim := worker.take()) is not None:
        points.append(claim.suggest())
        claim.finish("complete", 1.0)
    assert points == [plan.grid_point(index) for index in range(6)]


def test_a_trial_that_does_worse_is_pruned(tmp_path: Path, name: str) -> None:
    worker = queue(f"journal:{tmp_path}/log", name, make_plan(trials=MEDIAN_TRIALS + 2, pruner="median"))
    for place in range(MEDIAN_TRIALS):
        claim = take(worker)
        assert not claim.report(0.5, 0.5 + place / 100)
        claim.finish("complete", 1.0)
    good, bad = take(worker), take(worker)
    assert not good.report(0.5, 0.55)
    assert not bad.report(0.1, 0.1)  # too early
    assert bad.report(0.5, 0.52)
    assert not bad.report(0.6, 0.52)  # between two comparisons
    assert not bad.report(1.0, 0.52)  # at its end there is nothing to save
    bad.finish("pruned")
    assert worker.records()[-1].state == "pruned"


def test_importances_find_what_matters(tmp_path: Path, name: str) -> None:
    space = {"model.k": [8, 12, 16], "loss.eig": {"low": 0.0, "high": 1.0}, "spectrum.radius": [0]}
    worker = queue(f"journal:{tmp_path}/log", name, make_plan(trials=16, space=space))
    assert worker.importances() == {}
    while (claim := worker.take()) is not None:
        values = claim.suggest()
        claim.finish("complete", values["loss.eig"] + 0.001 * values["model.k"])
    importances = worker.importances()
    assert next(iter(importances)) == "loss.eig"
    assert importances["loss.eig"] > 0.8
    assert importances.get("spectrum.radius", 0) == 0


def test_another_plan_under_the_same_name_is_refused(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/a.db"
    queue(storage, "mine")
    assert not queue(storage, "mine", make_plan(trials=40)).is_new  # more trials of the same search
    with pytest.raises(InputError, match="another search called 'mine'; what differs: sampler; give this plan a name"):
        queue(storage, "mine", make_plan(sampler="tpe"))


@pytest.mark.parametrize(
    ("storage", "sentence"),
    [
        ("mysql://host/db", "unknown storage 'mysql://host/db'; wanted sqlite:///FILE, journal:FILE or postgresql://"),
        ("search.db", "unknown storage 'search.db'"),
        ("sqlite:///", "unknown storage"),
        ("journal:", "unknown storage"),
        (
            "postgresql://ann:secret@localhost:1/db",
            r"'postgresql://ann:\*\*\*@localhost:1/db' cannot be opened: .*refused",
        ),
        ("sqlite:////dev/null/a.db", "cannot be opened: .*File exists: '/dev/null'"),
    ],
)
def test_a_storage_that_cannot_be_opened(storage: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diskoop.search.storage.OPENINGS", 1)
    with pytest.raises(InputError, match=sentence) as caught:
        open_storage(storage)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["sqlite:///", "journal:"])
def test_a_damaged_file(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diskoop.search.storage.OPENINGS", 1)
    (tmp_path / "a").write_bytes(b"no storage\n" * 300)
    with pytest.raises(InputError, match="cannot be opened: "):
        open_storage(f"{scheme}{tmp_path}/a")


def test_a_storage_that_fails_later(tmp_path: Path) -> None:
    worker = queue(f"sqlite:///{tmp_path}/a.db", "mine")
    (tmp_path / "a.db").write_bytes(b"overwritten by another program" * 200)
    with pytest.raises(ResourceError, match=r"fails: .*; the same command goes on"), storage_errors("sqlite:///a.db"):
        worker.take()


def test_passwords_are_hidden() -> None:
    assert hide_password("postgresql://ann:s3:cr@host/db") == "postgresql://ann:***@host/db"
    assert hide_password("sqlite:///a:b@c") == "sqlite:///a:b@c"


def test_states_are_those_of_records() -> None:
    assert set(trials.TrialStateName.__args__) == {"waiting", "running", "complete", "pruned", "failed"}  # type: ignore[attr-defined]
