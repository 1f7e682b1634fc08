"""the figures that a trial is judged by, on validation clips"""

import math
from collections.abc import Sequence

from diskoop.analysis.decomposition import Decomposition
from diskoop.data import Sequences, open_data
from diskoop.errors import InputError
from diskoop.evaluation.classifiers import is_own_data, load_or_train_classifier
from diskoop.evaluation.protocols.reconstruction import swap_consistency
from diskoop.evaluation.protocols.swaps import match_factors, swap_matrices
from diskoop.evaluation.registry import EvalConfig
from diskoop.run import JUDGED_SEQUENCES, Run
from diskoop.settings import Settings

MIN_CLIPS = 2  # a swap takes two


def require_validation(settings: Settings) -> None:
    """An InputError unless validation clips are held out: test clips are for whoever reports the result."""
    clips = open_data(settings.data)
    if (count := clips.split_size("val")) < MIN_CLIPS:
        raise InputError(
            f"a search judges by {MIN_CLIPS} validation clips at least, and {clips.name} has {count}; "
            "data.val_fraction=0.1 holds out a tenth"
        )


def measure(run: Run, names: Sequence[str], seed: int = 0) -> dict[str, float]:
    """Figures of a run on its validation clips (`plan.FIGURES`).

    Args:
        run: finished.
        names: which ones.
        seed: draws donors and, where there are many clips, which of them.

    Raises:
        InputError: one of them cannot be told of this run.
    """
    figures: dict[str, float] = {}
    if {"explained", "steady"} & set(names):
        verdict = run.verdict("val")
        figures["explained"] = verdict.explained
        figures["steady"] = math.nan if verdict.within is None else 1 - verdict.within
    if {"cycle", "kept"} & set(names):
        config = EvalConfig(seed=seed)
        parts = run.decompose(config.subset(run.data("val"), JUDGED_SEQUENCES, 6))
        if _is_split(parts):
            again = swap_consistency(run, parts, config)
            figures |= {"cycle": 1 - again.cycle, "kept": again.kept}
        else:
            figures |= {"cycle": math.nan, "kept": math.nan}
    if "score" in names:
        figures["score"] = multifactor_score(run)
    if unknown := [name for name in names if not math.isfinite(figures[name])]:
        _, static = run.spectrum()
        raise InputError(
            f"{', '.join(unknown)} cannot be told: it takes a static and a dynamic part of finite size, and "
            f"{int(static.sum())} of {len(static)} modes are static"
        )
    return {name: figures[name] for name in names}


def multifactor_score(run: Run) -> float:
    """How well the factors that are found match labels: matched on training clips, scored on validation clips."""
    classifier = load_or_train_classifier(open_data(run.settings.data), _device(run)).reliable(run.settings.data)
    factored = run.save_factors(run.find_factors())
    matched = match_factors(factored, factored.data("train"), classifier)
    clips: Sequences = factored.data("val")
    (joined,) = swap_matrices(
        factored.decompose(clips), [matched], classifier.predict, by_frequency=is_own_data(run.settings.data)
    )
    return joined.score


def require_classifier(settings: Settings, device: str) -> None:
    """An InputError unless there is a classifier that tells the labels of a set; it is trained once."""
    load_or_train_classifier(open_data(settings.data), device).reliable(settings.data)


def _device(run: Run) -> str:
    return str(next(run.model.parameters()).device)


def _is_split(parts: Decomposition) -> bool:
    return bool(parts.static_modes.any()) and not bool(parts.static_modes.all())
