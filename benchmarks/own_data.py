"""Real sets as a stranger would bring them: train with the preset of their kind, measure beside linear models.

    python benchmarks/own_data.py DATA OUT [CASE]... [--seed 0]

DATA holds `actions`, `air`, `hapt`, `speechocean762`, `sprites` and `timit`; OUT receives a run and a JSON file for
each case. Without cases all are run. Nothing is chosen here: settings are the presets', figures are of the test split.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis.decomposition import Decomposition
from diskoop.data import Sequences, open_data, register_data_set
from diskoop.data.registry import DATA_SETS
from diskoop.evaluation.baselines import pca_dmd, slow_features
from diskoop.evaluation.metrics import distinct_pairs, eer_differences, equal_error_rate
from diskoop.evaluation.protocols.probes import fit_probe
from diskoop.evaluation.protocols.reconstruction import measure_errors
from diskoop.evaluation.protocols.speech import measure_phones
from diskoop.evaluation.registry import EvalContext
from diskoop.evaluation.results import Key
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.run import Run, load, train
from diskoop.settings import DataSettings

Facts = dict[str, Any]
LINEAR = {"PCA + DMD": pca_dmd, "slow features": slow_features}


def train_timed(source: str | Path, out: Path, preset: str | None, seed: int, **sections: Any) -> tuple[Run, Facts]:
    """A run, found in `out` or trained, with its minutes and its errors on test clips beside those of PCA + DMD."""
    facts_file = out.with_suffix(".train.json")
    if not (out / "model.safetensors").exists():
        start = time.perf_counter()
        sections["train"] = sections.get("train", {}) | {"seed": seed}
        train(source, out, preset=preset, **sections)
        facts_file.write_text(json.dumps({"minutes": (time.perf_counter() - start) / 60}))
    run = load(out)
    facts: Facts = json.loads(facts_file.read_text())
    facts |= {"k": run.settings.model.k, "static": run.settings.spectrum.static}
    facts |= {"sequences": {split: len(run.data(split)) for split in ("train", "test")}}
    context = EvalContext(run.data("train"), run.data("test"))
    for name, model in (("ours", run), ("PCA + DMD", pca_dmd(run, run.data("train")))):
        values = measure_errors(model, context).values
        facts[f"explained, {name}"] = values[Key("reconstruction", "explained_variance")].mean
        facts[f"next frame explained, {name}"] = 1 - values[Key("prediction", "error")].mean ** 2
    facts["verdict"] = run.verdict("test").sentences()
    return run, facts


def actions(data: Path, out: Path, seed: int) -> Facts:
    """Video of 9 people and 4 actions: a classifier of performers that never saw the action judges swaps."""
    run, facts = train_timed(data / "actions", out / f"actions-{seed}", None, seed)
    clips = open_data(run.settings.data)
    middle = clips.select(_middle_windows(clips))  # one window of each clip
    parts = run.decompose(middle)
    facts |= _judge_swaps(clips, middle, parts, judged="performer", left_out="action")
    return facts


def _middle_windows(clips: Sequences) -> NDArray[np.int64]:
    assert clips.clips is not None
    windows = [np.flatnonzero(clips.clips == clip) for clip in np.unique(clips.clips)]
    return np.array([each[len(each) // 2] for each in windows])


def _judge_swaps(clips: Sequences, middle: Sequences, parts: Decomposition, judged: str, left_out: str) -> Facts:
    """Static and dynamic swaps between clips of one value of `left_out`, judged by classifiers that never saw it.

    A probe on the pixels of mean frames tells who it is, and one on the changes from frame to frame what they do.
    """
    who, what = middle.labels[judged], middle.labels[left_out]
    looks = _mean_frames(clips.x)
    seen: dict[str, list[bool]] = {name: [] for name in ("accuracy", "donor after static", "own after dynamic")}
    for value in np.unique(what):
        train, test = clips.labels[left_out] != value, np.flatnonzero(what == value)
        classify = _pixel_classifier(looks[train], clips.labels[judged][train])
        donors = np.roll(test, 1)
        for name, truth, frames in (
            ("accuracy", who[test], middle.x[test]),
            ("donor after static", who[donors], _swapped(parts, "static", test, donors)),
            ("own after dynamic", who[test], _swapped(parts, "dynamic", test, donors)),
        ):
            seen[name] += (classify(_mean_frames(frames)) == truth).tolist()
    chance = float(np.square(np.bincount(who) / len(who)).sum())
    facts: Facts = {f"{judged}: {name}": float(np.mean(each)) for name, each in seen.items()}
    return facts | {f"{judged}: chance": chance, **_judge_actions(clips, middle, parts)}


def _judge_actions(clips: Sequences, middle: Sequences, parts: Decomposition) -> Facts:
    """The action seen in static swaps between different actions, by classifiers that never saw the performer."""
    who, what = middle.labels["performer"], middle.labels["action"]
    seen: dict[str, list[bool]] = {name: [] for name in ("accuracy", "own after static", "donor after dynamic")}
    for person in np.unique(who):
        train, test = clips.labels["performer"] != person, np.flatnonzero(who == person)
        classify = _pixel_classifier(_motion(clips.x[train]), clips.labels["action"][train])
        donors = np.array([np.flatnonzero((who != person) & (what != what[i]))[7 * i % 24] for i in test])
        for name, truth, frames in (
            ("accuracy", what[test], middle.x[test]),
            ("own after static", what[test], _swapped(parts, "static", test, donors)),
            ("donor after dynamic", what[donors], _swapped(parts, "dynamic", test, donors)),
        ):
            seen[name] += (classify(_motion(frames)) == truth).tolist()
    return {f"action: {name}": float(np.mean(each)) for name, each in seen.items()} | {"action: chance": 0.25}


def _swapped(parts: Decomposition, part: str, receivers: Any, donors: Any) -> NDArray[Any]:
    return parts.swap(part, dict(zip(receivers.tolist(), donors.tolist(), strict=True))).select(receivers).decode()


def _mean_frames(x: NDArray[Any]) -> NDArray[np.float64]:
    """(n, pixels): mean frames at a quarter of the size."""
    return _shrink(x.astype(np.float64).mean(1))


def _motion(x: NDArray[Any]) -> NDArray[np.float64]:
    """(n, pixels): where and how much frames change, and which way over time, at a quarter of the size."""
    x = x.astype(np.float64)
    change = np.diff(x, axis=1)
    return np.concatenate([_shrink(np.abs(change).mean(1)), _shrink(x[:, 8:].mean(1) - x[:, :8].mean(1))], 1)


def _shrink(x: NDArray[np.float64]) -> NDArray[np.float64]:
    n, channels, height, width = x.shape
    small = x.reshape(n, channels, height // 4, 4, width // 4, 4).mean((3, 5))
    flat: NDArray[np.float64] = small.reshape(n, -1) / 255
    return flat


def _pixel_classifier(x: NDArray[Any], y: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(PCA(40, whiten=True, random_state=0), LogisticRegression(C=0.1, max_iter=1000)).fit(x, y)
    predict: Callable[[NDArray[Any]], NDArray[Any]] = model.predict
    return predict


def speech(data: Path, out: Path, seed: int) -> Facts:
    """speechocean762: 24 test speakers verified by whole recordings."""
    run, facts = train_timed(data / "speechocean762", out / f"speech-{seed}", None, seed)
    return facts | _verify([run], "speaker") | _sounds(run)


def timit(data: Path, out: Path, seed: int) -> Facts:
    """The TIMIT sample in four folds over its 16 speakers; error rates over the pairs within folds."""
    runs, all_facts = [], []
    for fold in range(4):
        name = f"timit-fold-{fold}"
        _register_timit_fold(name, fold)
        folder = out / f"timit-{seed}-{fold}"
        run, facts = train_timed(name, folder, "sound", seed, data={"path": str(data / "timit")})
        runs.append(run)
        all_facts.append(facts | _sounds(run))
    numbers = [key for key, value in all_facts[0].items() if isinstance(value, int | float)]
    mean = {key: float(np.mean([each[key] for each in all_facts])) for key in numbers}
    return mean | {"verdict": all_facts[0]["verdict"]} | _verify(runs, "speaker")


def _register_timit_fold(name: str, fold: int) -> None:
    def load_fold(settings: DataSettings) -> Sequences:
        clips = DATA_SETS["timit"].load(settings.model_copy(update={"name": "timit"}))
        speaker = clips.labels["speaker"]
        order = np.random.default_rng(0).permutation(np.unique(speaker))
        tests, validates = np.isin(speaker, order[fold::4]), speaker == order[(fold + 1) % 4]
        return replace(clips, split_codes=np.where(tests, 2, np.where(validates, 1, 0)).astype(np.int8))

    if name not in DATA_SETS:
        register_data_set(name, load_fold, ("path", "window", "stride", "val_fraction", "test_fraction", "group"))


def _verify(runs: list[Run], label: str) -> Facts:
    """Mean equal error rates over runs (of folds) with either operator, beside linear models, with paired intervals."""
    facts: Facts = {}
    for operator in ("batch", "frozen"):
        codes: dict[str, list[NDArray[Any]]] = {}
        speakers: list[NDArray[Any]] = []
        for run in runs:
            whole = run.settings.data.model_copy(update={"window": None, "stride": None})
            clips = open_data(whole).split("test")
            speakers.append(clips.labels[label])
            models = {"ours": run} | {name: fit(run, run.data("train"), 0) for name, fit in LINEAR.items()}
            for name, model in models.items():
                parts = model.decompose(clips, operator)
                codes.setdefault(f"{name} static", []).append(parts.code("static").cpu().numpy())
                codes.setdefault(f"{name} dynamic", []).append(parts.code("dynamic").cpu().numpy())
        for name, each in codes.items():
            rates = [equal_error_rate(*distinct_pairs(*fold)) for fold in zip(each, speakers, strict=True)]
            facts[f"EER {operator}, {name}"] = float(np.mean(rates))
        for name in LINEAR:
            facts[f"EER {operator}, ours - {name}"] = _paired(codes["ours static"], codes[f"{name} static"], speakers)
    return facts


def _paired(ours: list[NDArray[Any]], others: list[NDArray[Any]], speakers: list[NDArray[Any]]) -> list[float]:
    """A 95% interval of the difference of mean error rates over folds, by a paired bootstrap over speakers."""
    random = np.random.default_rng(0)
    draws = [eer_differences(*fold, random) for fold in zip(ours, others, speakers, strict=True)]
    return [float(edge) for edge in np.quantile(np.mean(draws, 0), [0.025, 0.975])]


def _sounds(run: Run) -> Facts:
    """How well either part tells what is said: phones, or kinds of sound where there are no phones."""
    clips, known = run.data("test"), run.data("train")
    values = measure_phones(run, EvalContext(known, clips)).values
    return {f"sounds from {name}": values[Key("phones", name)].mean for name in (*SPECTRAL_PARTS, "chance")}


def hapt(data: Path, out: Path, seed: int) -> Facts:
    """Phone sensors, split by recording: the subject read from either part."""

    def load_recordings(settings: DataSettings) -> Sequences:
        clips = open_data(DataSettings(path=str(data / "hapt" / "hapt_windows_128.npz"), group="none"))
        first = clips.labels["recording"] == 0
        validates = np.random.default_rng(0).random(len(clips)) < 0.1
        return replace(clips, split_codes=np.where(first, validates, 2).astype(np.int8))

    if "hapt-recordings" not in DATA_SETS:
        register_data_set("hapt-recordings", load_recordings)
    run, facts = train_timed("hapt-recordings", out / f"hapt-{seed}", "series", seed)
    parts = {split: run.decompose(run.data(split)) for split in ("train", "test")}
    for label in ("subject", "activity"):
        for part in SPECTRAL_PARTS:
            codes = {split: each.code(part).cpu().numpy() for split, each in parts.items()}
            probe = fit_probe(
                codes["train"], parts["train"].clips.labels[label], codes["test"], parts["test"].clips.labels[label]
            )
            facts[f"{label} from {part}"] = probe.accuracy
        facts[f"{label} chance"] = probe.chance
    return facts


def air(data: Path, out: Path, seed: int) -> Facts:
    """Hourly air quality and weather of four stations, split in time."""
    return train_timed(data / "air", out / f"air-{seed}", None, seed)[1]


def sprites(data: Path, out: Path, seed: int) -> Facts:
    """The real Sprites at 32 pixels with the preset for one's own video."""
    place = {"path": str(data / "sprites"), "size": 32}
    return train_timed("sprites", out / f"sprites-{seed}", "video", seed, data=place)[1]


CASES: dict[str, Callable[[Path, Path, int], Facts]] = {
    "actions": actions,
    "air": air,
    "hapt": hapt,
    "speech": speech,
    "sprites": sprites,
    "timit": timit,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; by default all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if unknown := [name for name in given.cases if name not in CASES]:
        parser.error(f"unknown case {unknown[0]!r}; there are {', '.join(CASES)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.cases or CASES:
        facts = CASES[name](given.data.resolve(), given.out, given.seed)
        (given.out / f"{name}-{given.seed}.json").write_text(json.dumps(facts, indent=1))
        print(f"\n{name}, seed {given.seed}", flush=True)
        for key, value in facts.items():
            print(f"  {key}: {value:.4f}" if isinstance(value, float) else f"  {key}: {value}", flush=True)


if __name__ == "__main__":
    main()
