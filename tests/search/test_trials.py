"""No trial is run twice and none is lost, whoever takes them, and however a worker ends."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from optuna.storages.journal import JournalFileOpenLock
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
    """Of which a worker is given up sooner than a plan that somebody writes may say."""
    space = {"model.k": [8, 12], "loss.eig": {"low": 0.1, "high": 10, "log": True}}
    heartbeat = changes.pop("heartbeat", HEARTBEAT)
    plan = SearchPlan.of({"space": space, "sampler": "random", "trials": 4, "pruner": "none"} | changes)
    return plan.model_copy(update={"heartbeat": heartbeat})


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
    (waiting,) = (each._trial_id for each in first.study.get_trials() if each.state == TrialState.WAITING)
    results: dict[str, bool] = {}

    def claim(worker: TrialQueue, who: str) -> None:
        results[who] = worker.storage.set_trial_state_values(waiting, TrialState.RUNNING)

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
    # Eight of ten in the best quarter: uniform draws do so four times in 10,000; one that explores may lie anywhere.
    assert sum(sign * (value - 0.5) > 0.25 for value in drawn[-10:]) >= 8
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


def test_a_worker_is_given_up_by_its_own_heartbeat(either: str, name: str) -> None:
    """Whoever looks on may have asked for another one."""
    slow, hasty = queue(either, name, make_plan(trials=1, heartbeat=60)), queue(either, name, make_plan(trials=1))
    with take(slow) as claim:
        claim.suggest()
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            assert hasty.take() is None
            time.sleep(HEARTBEAT)
        claim.finish("complete", 1.0)
    assert [each.attempts for each in slow.records()] == [1]


def test_a_duplicate_whose_worker_is_killed_takes_no_trial_away(either: str, name: str) -> None:
    """Between taking a superfluous attempt and dropping it; the one that counts is alive."""
    lost, other = queue(either, name, make_plan(trials=1)), queue(either, name, make_plan(trials=1))
    alive = queue(either, name, make_plan(trials=1, heartbeat=60))
    frozen = lost.frozen(take(lost).trial)
    alive.add_attempt(frozen, 1)
    lost.add_attempt(frozen, 1)
    with take(alive) as claim:
        duplicate = lost.study.get_trials()[-1]
        assert duplicate.state == TrialState.WAITING
        assert lost.storage.set_trial_state_values(duplicate._trial_id, TrialState.RUNNING)
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            assert other.take() is None
            time.sleep(HEARTBEAT)
        claim.finish("complete", 0.5)
    assert [(each.state, each.value, each.attempts) for each in other.records()] == [("complete", 0.5, 2)]
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
    worker = queue(f"journal:{tmp_path}/log", name, make_plan(trials=MEDIAN_TRIALS + 2, pruner="median", heartbeat=60))
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


def test_halving_goes_on_with_the_best_quarter_of_each_stage(tmp_path: Path, name: str) -> None:
    worker = queue(f"journal:{tmp_path}/log", name, make_plan(trials=8, pruner="halving", heartbeat=60))
    claims = [take(worker) for _ in range(8)]
    assert [claim.report(0.05, 0.0) for claim in claims] == [False] * 8  # too early
    for place, claim in enumerate(claims[:6]):  # each is compared with those that came so far
        assert claim.report(0.1, 0.5 - place / 100) == (place > 0)
    good, fair = claims[6:]
    assert not good.report(0.1, 0.9)
    assert not fair.report(0.1, 0.8)  # the second of eight
    assert not good.report(0.2, 0.0)  # between two stages
    assert not good.report(0.4, 0.9)
    assert fair.report(0.4, 0.8)  # the second of two


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
    queue(storage, "mine", make_plan(trials=40))  # more trials of the same search
    with pytest.raises(InputError, match="another search called 'mine'; what differs: sampler; give this plan a name"):
        queue(storage, "mine", make_plan(sampler="tpe"))


@pytest.mark.parametrize("at_once", [True, False])
def test_of_two_first_workers_one_has_the_plan(either: str, name: str, at_once: bool) -> None:
    """Both have seen that there is none; then both tell theirs and look again, or one does after the other."""
    storages = [open_storage(either) for _ in range(2)]
    plans = [make_plan(sampler=sampler) for sampler in ("random", "tpe")]
    results: list[object] = [None, None]
    both, first_is_done = threading.Barrier(2, timeout=60), threading.Event()

    class Slow(TrialQueue):
        looks = 0

        def _common_plan(self) -> dict[str, Any] | None:
            self.looks += 1
            if at_once and self.looks == 2:
                both.wait()
            plan = super()._common_plan()
            if self.looks == 1:
                both.wait()
                if not at_once and self.plan is plans[1]:
                    first_is_done.wait(60)
            return plan

    def begin(index: int) -> None:
        try:
            results[index] = Slow(storages[index], name, plans[index])
        except InputError as error:
            results[index] = error
        first_is_done.set()

    threads = [threading.Thread(target=begin, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = (index for index, result in enumerate(results) if isinstance(result, TrialQueue))
    assert at_once or winner == 0
    queue(either, name, plans[winner])
    assert "holds another search" in str(results[1 - winner])
    with pytest.raises(InputError, match="what differs: sampler"):
        queue(either, name, plans[1 - winner])


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
        (
            "postgresql://localhost:1/db?user=ann&password=secret",
            r"'postgresql://localhost:1/db\?user=ann&password=\*\*\*' cannot be opened: .*refused",
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


def test_a_torn_last_line_of_a_journal_is_mended(tmp_path: Path, name: str) -> None:
    """A worker was killed while it wrote; the next line would be lost with that one, and then every further one."""
    worker, other = (queue(f"journal:{tmp_path}/log", name, make_plan(trials=2)) for _ in range(2))
    claim = take(worker)
    with (tmp_path / "log").open("ab") as file:
        file.write(b'{"op_code":8,"worker_id":"a')
    claim.suggest()
    claim.finish("complete", 0.5)
    take(other).finish("complete", 0.5)
    assert queue(f"journal:{tmp_path}/log", name, make_plan(trials=2)).is_done
    (tmp_path / "notes.txt").write_text("no journal")
    with suppress(InputError, ResourceError), storage_errors("journal:notes.txt"):
        queue(f"journal:{tmp_path}/notes.txt", name)
    assert (tmp_path / "notes.txt").read_text().startswith("no journal")


@pytest.mark.parametrize("damage", ["torn\n{}\n", "[3]\n", '{"op_code":4}\n', '{"op_code":2,"study_id":0}\n'])
@pytest.mark.parametrize("use", ["suggest", "take", "records", "finish", "release"])
def test_a_damaged_journal_is_a_sentence(damage: str, use: str, tmp_path: Path, name: str) -> None:
    worker = queue(f"journal:{tmp_path}/log", name)
    claim = take(worker)
    uses: dict[str, Callable[[], object]] = {
        "suggest": claim.suggest,
        "take": worker.take,
        "records": worker.records,
        "finish": lambda: claim.finish("complete", 1.0),
        "release": claim.release,
    }
    with (tmp_path / "log").open("a") as file:
        file.write(damage)
    sentence = r"^the storage 'journal:log' fails: .*; the same command goes on$"
    with pytest.raises(ResourceError, match=sentence), storage_errors("journal:log"):
        uses[use]()


@pytest.mark.parametrize("failure", ["lock", "line"])
def test_a_heart_goes_on_beating_when_a_journal_fails_for_a_while(
    failure: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "log"
    worker = queue(f"journal:{journal}", name, make_plan(trials=1))

    def beats() -> int:
        return int(queue(f"journal:{journal}", name, make_plan(trials=1)).study.get_trials()[-1].user_attrs["beat"])

    with take(worker) as claim:
        time.sleep(4 * HEARTBEAT)
        if failure == "lock":
            with monkeypatch.context() as patch:
                patch.setattr(JournalFileOpenLock, "release", _lost_lock)
                time.sleep(4 * HEARTBEAT)
            (tmp_path / "log.lock").unlink(missing_ok=True)
        else:
            whole = journal.read_bytes()
            journal.write_bytes(whole + b"torn\n{}\n")
            time.sleep(4 * HEARTBEAT)
            journal.write_bytes(whole)
        before, end = beats(), time.monotonic() + 10
        while beats() == before:
            assert time.monotonic() < end
        claim.finish("complete", 1.0)
    assert worker.is_done


def _lost_lock(lock: JournalFileOpenLock) -> None:
    """What Optuna does where another worker has taken the lock away, half a minute after it was last held."""
    Path(lock._lock_file).unlink(missing_ok=True)
    raise RuntimeError("Error: did not possess lock")


def test_a_lock_that_was_taken_away_is_a_sentence(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = queue(f"journal:{tmp_path}/log", name)
    monkeypatch.setattr(JournalFileOpenLock, "release", _lost_lock)
    with (
        pytest.raises(ResourceError, match="fails: Error: did not possess lock; the same"),
        storage_errors("journal:log"),
    ):
        worker.take()


@pytest.mark.parametrize("odd", ["run?1", "run%3F1", "run{1}", "run#1"])
def test_any_folder_may_hold_the_file(odd: str, tmp_path: Path, name: str) -> None:
    queue(f"sqlite:///{tmp_path}/{odd}/search.db", name)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.db")] == [f"{odd}/search.db"]
    assert [path.name for path in tmp_path.iterdir()] == [odd]


def test_passwords_are_hidden() -> None:
    assert hide_password("postgresql://host/db?user=ann&password=s:e/cr@t&port=1") == (
        "postgresql://host/db?user=ann&password=***&port=1"
    )
    assert hide_password("postgresql://ann:a@host:1/db?sslpassword=b&PASSWORD=c") == (
        "postgresql://ann:***@host:1/db?sslpassword=***&PASSWORD=***"
    )
    assert hide_password("postgresql://ann:s3:cr@host/db") == "postgresql://ann:***@host/db"
    assert hide_password("sqlite:///a:b@c") == "sqlite:///a:b@c"


def test_states_are_those_of_records() -> None:
    assert set(trials.TrialStateName.__args__) == {"waiting", "running", "complete", "pruned", "failed"}  # type: ignore[attr-defined]
