"""search as a command: one of the workers that try the settings of a plan"""

import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from diskoop.errors import Diverged, InputError, ResourceError, Stopped, quoted
from diskoop.run import Run, load
from diskoop.run_folder import RunFolder, read_metrics
from diskoop.search.figures import measure, require_classifier, require_validation
from diskoop.search.plan import SearchPlan
from diskoop.search.results import SearchResults
from diskoop.search.storage import hide_password, open_storage, require_packages, storage_errors
from diskoop.search.trials import ClaimedTrial, TakenOver, TrialQueue, TrialRecord
from diskoop.settings import Settings
from diskoop.storage import atomic_folder, discard, write_errors, write_text
from diskoop.training import loop
from diskoop.training.progress import ProgressBar, Reporter
from diskoop.workflows.clips import choose_device
from diskoop.workflows.console import Justify, print_lines, print_table

SHOWN_TRIALS = 12  # in the table on the terminal
MAX_POLL_SECONDS = 5.0  # between looks at what other workers do
ATTEMPT = re.compile(r"(\d{3,})-(\d+)")  # a folder: of which trial, and which attempt at it
LEFT = ("trial", "state")  # columns of text


class Pruned(Exception):  # noqa: N818 - said in the past
    """A trial that does worse than others did at this point."""


class TrialReporter(Reporter):
    """Shows the progress of a trial, whose validations `on_validation` is told: (share that is done, row)."""

    def __init__(self, parent: Reporter, on_validation: Callable[[float, Mapping[str, Any]], None]) -> None:
        super().__init__(parent.console)
        self.parent, self.on_validation = parent, on_validation

    def log(self, text: str) -> None:
        self.parent.log(f"  {text}")

    def open(self, total: int, done: int, epochs: int | None) -> ProgressBar:
        return _TrialBar(self, total, done, epochs)


class _TrialBar(ProgressBar):
    def __init__(self, reporter: TrialReporter, total: int, done: int, epochs: int | None) -> None:
        super().__init__(reporter.console, total, done, epochs)
        self.on_validation = reporter.on_validation

    def epoch(self, row: Mapping[str, Any]) -> None:
        self.on_validation(row["step"] / self.total, row)


class Search:
    """One worker of a search.

    Args:
        name: of the search in its storage.
        plan: what to try.
        folder: for plan.yaml, the trials' runs, tables and pictures.
        reporter: shows progress.
    """

    def __init__(self, name: str, plan: SearchPlan, folder: Path, reporter: Reporter) -> None:
        require_packages()
        self.name, self.plan, self.folder, self.reporter = name, plan, folder, reporter
        self.where = plan.storage or f"sqlite:///{folder / 'search.db'}"
        data = plan.data_settings()
        require_validation(data)
        if plan.takes_labels:
            require_classifier(data, choose_device(data.train.device))
        with write_errors(self.trials):
            self.trials.mkdir(parents=True, exist_ok=True)
        has_trials = any(self.trials.iterdir())  # asked first: the storage knows a trial before it has a folder
        storage = open_storage(self.where)
        with storage_errors(self.where):
            self.queue = TrialQueue(storage, name, plan)
            is_new = not self.queue.records()
        if has_trials and is_new:
            raise InputError(
                f"{str(self.trials)!r} holds trials that the storage {quoted(hide_password(self.where))} does not "
                "know; choose another folder with --out, or the storage that they belong to"
            )
        shown = None if plan.storage is None else hide_password(plan.storage)
        write_text(folder / "plan.yaml", plan.model_copy(update={"storage": shown}).to_yaml())

    @property
    def trials(self) -> Path:
        return self.folder / "trials"

    def results(self) -> SearchResults:
        return SearchResults(self.name, self.plan, self.queue.records(), self.queue.importances())

    def best(self) -> TrialRecord | None:
        return SearchResults(self.name, self.plan, self.queue.records(), {}).best

    def run(self) -> tuple[SearchResults, list[Path]]:
        """Work until every trial of the plan has come to its end, here or elsewhere.

        Returns:
            The results, and the files that were written: tables, pictures, the best trial's settings.

        Raises:
            Stopped: on Ctrl-C; the trial that was interrupted waits for the next worker.
        """
        with storage_errors(self.where):
            try:
                self._work()
                results = self.results()
            except KeyboardInterrupt:
                raise self._stopped() from None
        files = [*results.write(self.folder), *results.draw(self.folder)]
        if results.trials and all(each.state == "failed" for each in results.trials):
            raise InputError(f"every trial failed, the first one so: {results.trials[0].error}")
        if results.best is not None:
            best = self.folder / "best.yaml"
            self.plan.trial_settings(results.best.params).save(best)
            files.append(best)
        return results, files

    def _work(self) -> None:
        is_waiting = False
        while True:
            claim = self.queue.take()
            if claim is not None:
                is_waiting = False
                self._try(claim)
                self._name_runs()
                self.results().write(self.folder)
            elif self.queue.is_done:
                self._name_runs()
                return
            else:
                if not is_waiting:
                    self.reporter.log("no trial is left to begin; waiting for those of other workers")
                is_waiting = True
                time.sleep(min(self.plan.heartbeat, MAX_POLL_SECONDS))

    def _try(self, claim: ClaimedTrial) -> None:
        """Train, measure and finish one trial, or release it."""
        with claim:
            try:
                params = claim.suggest()
                again = " once more" if claim.attempt else ""
                self.reporter.log(f"trial {claim.name} of {self.plan.num_trials}{again}: {self.plan.describe(params)}")
                self._train_and_measure(claim, params)
            except TakenOver:
                self._log_taken(claim)
            except (Diverged, InputError) as error:  # InputError also where another worker has removed the folder
                self._fail(claim, str(error))
            except (Stopped, KeyboardInterrupt):
                claim.release()
                raise self._stopped() from None
            except ResourceError:  # a full disk: whoever goes on need not wait until this worker is given up
                with suppress(ResourceError), storage_errors(self.where):
                    claim.release()
                raise

    def _train_and_measure(self, claim: ClaimedTrial, params: Mapping[str, Any]) -> None:
        settings, path = self.plan.trial_settings(params), self._attempt(claim.place, claim.attempt)
        progress = TrialReporter(self.reporter, lambda done, row: self._on_validation(claim, done, row))
        try:
            run = self._train(claim, settings, progress)
        except Pruned as pruned:
            seconds = sum(row["seconds"] for row in read_metrics(RunFolder(path)))
            claim.finish("pruned", seconds=seconds)
            self.reporter.log(f"trial {claim.name} pruned: {pruned}")
            return
        figures = measure(run, self.plan.figures)
        value = self.plan.judge(figures)
        seconds = sum(row["seconds"] for row in read_metrics(run.folder))
        claim.finish("complete", value, figures=figures, seconds=seconds)
        told = ", ".join(f"{name} {figure:.3f}" for name, figure in figures.items())
        self.reporter.log(f"trial {claim.name}: {value:.3f} ({told}) in {seconds:.0f} s; {self._best()}")

    def _attempt(self, place: int, attempt: int) -> Path:
        """The folder that this attempt alone writes to: whoever was suspended and wakes up spoils nobody's run."""
        return self.trials / f"{place:03d}-{attempt}"

    def _train(self, claim: ClaimedTrial, settings: Settings, reporter: Reporter) -> Run:
        """The finished run of a trial: trained, from the checkpoint of an attempt before where there is one."""
        again, device = "diskoop search", choose_device(settings.train.device)
        path, *earlier = [self._attempt(claim.place, number) for number in range(claim.attempt, -1, -1)]
        before = next((each for each in earlier if RunFolder(each).checkpoint.exists()), None)
        if before is not None:
            reporter.log(f"goes on from the checkpoint in {before}")
            try:
                _copy_checkpoint(before, path)
                loop.resume(path, reporter, again)
                return load(path, device)
            except InputError as error:  # a checkpoint of another device, or a damaged one
                reporter.log(f"begins anew: {error}")
                discard(path)
        loop.train(settings, path, reporter=reporter, resume_command=again)
        return load(path, device)

    def _name_runs(self) -> None:
        """Call the run of every finished trial by the trial's number, and remove what other attempts at it have left.

        The storage says which attempt counts, so any worker may do this, also for one that was killed before.
        """
        settled = self.queue.settled_attempts()
        for path in sorted(self.trials.iterdir()):
            found = ATTEMPT.fullmatch(path.name)
            if found is None or int(found[1]) not in settled:
                continue
            with suppress(OSError, InputError):  # another worker was faster, or it is another user's
                if settled[int(found[1])] == int(found[2]):
                    path.replace(self.trials / found[1])
                else:
                    discard(path)

    def _on_validation(self, claim: ClaimedTrial, done: float, row: Mapping[str, Any]) -> None:
        explained = row.get("val.explained")
        if explained is not None and claim.report(done, explained):
            raise Pruned(f"explains {explained:.0%} after {done:.0%} of its training")

    def _fail(self, claim: ClaimedTrial, error: str) -> None:
        try:
            claim.finish("failed", error=error)
        except TakenOver:
            self._log_taken(claim)
            return
        self.reporter.log(f"trial {claim.name} failed: {error}")

    def _log_taken(self, claim: ClaimedTrial) -> None:
        self.reporter.log(f"trial {claim.name} has been taken over by another worker")

    def _best(self) -> str:
        best = self.best()
        return "" if best is None else f"best so far {best.value:.3f} (trial {best.name})"

    def _stopped(self) -> Stopped:
        results = self.results()
        results.write(self.folder)
        return Stopped(f"stopped; {results.counts()}; the same command goes on")


def _copy_checkpoint(source: Path, target: Path) -> None:
    """Make a run that goes on from the checkpoint of another one, which may be written to meanwhile."""
    with atomic_folder(target) as temporary:
        one, other = RunFolder(source), RunFolder(temporary)
        for file, copy in ((one.settings, other.settings), (one.checkpoint, other.checkpoint)):
            with suppress(FileNotFoundError):  # whoever goes on from there says what is missing
                shutil.copyfile(file, copy)


def print_results(results: SearchResults) -> None:
    """Print the best trials and what mattered."""
    headings = results.headings()
    columns: dict[str, Justify] = {name: "left" if name in LEFT else "right" for name in headings}
    rows = results.rows()
    print_table(f"search {results.name}, {results.counts()}", columns, rows[:SHOWN_TRIALS])
    if len(rows) > SHOWN_TRIALS:
        print_lines([f"and {len(rows) - SHOWN_TRIALS} more in table.md"])
    if results.importances:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in results.importances.items())
        print_lines([f"what mattered: {shares}"])
    if results.best is not None:
        print_lines([f"best: trial {results.best.name}, {results.plan.describe(results.best.params)}"])
