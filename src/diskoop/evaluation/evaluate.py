"""a run and its baselines -> every metric that their data allow"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from diskoop.analysis.discovery.results import DiscoveryResult
from diskoop.data import load_split, open_data
from diskoop.data.cache import digest
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, counted, suggest
from diskoop.evaluation.baselines import BASELINES, SPEECH_BASELINES, leaky_model
from diskoop.evaluation.classifiers import is_own_data, load_or_train_classifier
from diskoop.evaluation.protocols.speech import find_speaker_label, verification_error, whole_recordings
from diskoop.evaluation.registry import METRICS, EvalConfig, EvalContext, Metric, Outcome, find_motion_label
from diskoop.evaluation.results import Key, ModelResults, Values, from_records, to_records
from diskoop.input_files import parse_json, read_text
from diskoop.provenance import Origin, code_checksum, commit, nearest_preset
from diskoop.run import Run
from diskoop.storage import write_text
from diskoop.tensor_files import weights_checksum
from diskoop.training.checkpoint import fingerprint
from diskoop.training.progress import Reporter

Stages = Mapping[str, Callable[[], Outcome]]  # a metric's name -> measures it


# --- context


def build_context(run: Run, config: EvalConfig, reporter: Reporter | None = None) -> EvalContext:
    """The test split of the run's data, and classifiers that are good enough for it.

    Recordings are used whole, whatever windows the run was trained on.

    Raises:
        InputError: if a label of `config` is unknown, or a classifier below the accuracy that the set requires.
    """
    settings = run.settings.data
    is_sound = run.units.rate is not None
    everything = whole_recordings(run) if is_sound else open_data(settings)
    if not everything.is_video:  # the scale that the run was trained with, whatever the data's is now
        everything = replace(everything, units=run.units)
    train, test = load_split(settings, "train", everything), everything.split("test")
    clips = test if config.limit is None else config.subset(test, config.limit, 6)
    _check_motion_label(config.motion_label, test)
    of = "" if len(clips) == len(test) else f" of {len(test)}"
    notes = [f"{clips.name}: {len(clips)}{of} test sequence{'' if len(test) == 1 else 's'}, {len(train)} to train on"]
    speaker_label = None
    if is_sound:
        try:
            speaker_label = find_speaker_label(clips, config.speaker_label)
        except InputError as error:
            if config.speaker_label is not None:
                raise
            notes.append(f"no speaker verification: {error}")
    elif config.speaker_label is not None:
        raise InputError(f"--speaker-label says who speaks in recordings, got it for {clips.name}, which has no sound")
    device = str(next(run.model.parameters()).device)
    classifier = frame_classifier = None
    try:
        if config.use_classifier:
            classifier = load_or_train_classifier(everything, device, reporter).reliable(settings)
    except InputError as error:
        notes.append(f"no classifier: {error}")
    motion_label = config.motion_label or find_motion_label(() if classifier is None else classifier.values)
    if classifier is not None:
        if motion_label is None:
            labels = ", ".join(classifier.labels)
            notes.append(f"no Acc: which of {labels} says what is done, if one does, --motion-label tells")
        notes += [classifier.describe(), classifier.check_accuracy(settings)]
        if everything.is_video:
            ignore = (motion_label or "",)
            of_frames = load_or_train_classifier(everything, device, reporter, single_frames=True)
            try:
                frame_classifier = of_frames.reliable(settings, ignore)
            except InputError as error:
                notes.append(f"of single frames, {error}")
            else:
                notes += [
                    f"of single frames, {frame_classifier.describe()}",
                    frame_classifier.check_accuracy(settings, ignore),
                ]
    fewer = f" ({config.swap_repeats} of swaps and baselines)" if config.swap_repeats < config.repeats else ""
    notes.append(f"{counted(config.repeats, 'repetition')}{fewer}, batches of {config.batch_size}, seed {config.seed}")
    return EvalContext(
        train,
        clips,
        classifier,
        config,
        frame_classifier,
        motion_label,
        speaker_label,
        tuple(notes),
        is_own_data(settings),
    )


def _check_motion_label(label: str | None, clips: Sequences) -> None:
    if label is not None and label not in clips.labels:
        known = suggest(label, clips.labels) if clips.labels else f"{clips.name} has none"
        raise InputError(f"unknown label {label!r}; {known}")


# --- cache


@dataclass
class ResultCache:
    """Outcomes by name, written to a file as they come, so that an interrupted evaluation can be continued.

    Args:
        path: of the file; None keeps them in memory only.
        inputs: what the outcomes depend on; a file with other inputs is ignored.
    """

    path: Path | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    entries: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            try:
                facts = parse_json(read_text(self.path))
                self.entries = facts["entries"] if facts["inputs"] == json.loads(json.dumps(self.inputs)) else {}
            except (ValueError, KeyError, TypeError):  # damaged: measured again
                self.entries = {}

    def get_or_measure(self, name: str, measure: Callable[[], Outcome]) -> Outcome:
        """The cached outcome; if there is none, that of `measure`, which is then cached."""
        if name not in self.entries:
            outcome = measure()
            self.entries[name] = {"values": to_records(outcome.values), "notes": list(outcome.notes)}
            if self.path is not None:
                write_text(self.path, json.dumps({"inputs": self.inputs, "entries": self.entries}))
        entry = self.entries[name]
        return Outcome(from_records(entry["values"]), list(entry["notes"]))


def cache_inputs(run: Run, context: EvalContext) -> dict[str, Any]:
    """What values depend on: the weights, the factors, the code, the config, the sequences and their labels."""
    config, sets = context.config, (context.train, context.clips)
    return {
        "model": weights_checksum(run.model),
        "operator": run.operator.fitted_on,
        "factors": None if run.factors is None else _describe_factors(run.factors),
        "code": code_checksum(),
        "config": [config.repeats, config.batch_size, config.seed, config.search_batches, config.search_blocks],
        "clips": [fingerprint(each) for each in sets],
        "labels": [
            context.motion_label,
            context.speaker_label,
            *(digest({name: codes.tolist() for name, codes in each.labels.items()}) for each in sets),
        ],
    }


def _describe_factors(result: DiscoveryResult) -> list[Any]:
    """With their projectors: factors of another discovery may well have the same names."""
    return [result.names, [each.kind for each in result.factors], result.found_in, result.checksum]


# --- models


def measure_run(
    name: str, run: Run, context: EvalContext, results_cache: ResultCache, log: Callable[[str], None]
) -> ModelResults:
    """Every metric of the run itself, those that baselines share first.

    Args:
        name: of its results.
        run: with factors, or what needs them is left out with a note.
        context: from `build_context`.
        results_cache: what is in it is not measured again.
        log: gets the name of each metric that is measured.
    """
    stages = _stages(lambda: run, lambda: run, context, baselines=True)
    stages |= _stages(lambda: run, lambda: run, context, baselines=False)
    return _measure_stages(name, run, stages, context, results_cache, log)


def measure_baselines(
    run: Run, context: EvalContext, results_cache: ResultCache, log: Callable[[str], None]
) -> list[ModelResults]:
    """The run's baselines, each with factors that are discovered without labels, and for sound means over time."""
    context = replace(context, config=context.config.for_baselines())
    models = []
    for name, build in BASELINES.items():
        if build is leaky_model and context.speaker_label is not None:
            continue  # alternating signs vanish in a mean over time, and prove nothing
        # Built when a value is not in the cache, if at all.
        plain = cache(partial(build, run, context.train, context.config.seed))
        stages = _stages(plain, cache(partial(_find_factors, plain)), context, baselines=True)
        models.append(_measure_stages(name, run, stages, context, results_cache, log))
    if context.speaker_label is not None:
        for name, encode in SPEECH_BASELINES.items():
            stages = {"speakers": partial(_measure_codes, encode, context)}
            models.append(_measure_stages(name, run, stages, context, results_cache, log))
    return models


def _find_factors(plain: Callable[[], Run]) -> Run:
    run = plain()
    return replace(run, factors=run.find_factors())


def _measure_codes(encode: Callable[[Sequences, Sequences], Any], context: EvalContext) -> Outcome:
    rate = verification_error(encode(context.clips, context.train), context)
    return Outcome({Key("eer", "static", "mean"): rate})


def _stages(
    plain: Callable[[], Run], with_factors: Callable[[], Run], context: EvalContext, baselines: bool
) -> dict[str, Callable[[], Outcome]]:
    """The metrics that apply, of those that baselines share or of the others."""

    def measure(metric: Metric) -> Outcome:
        return metric.measure(with_factors() if "factors" in metric.requires else plain(), context)

    return {
        each.name: partial(measure, each)
        for each in METRICS.values()
        if each.baselines is baselines and each.applies(context)
    }


def _measure_stages(
    name: str,
    run: Run,
    stages: Stages,
    context: EvalContext,
    results_cache: ResultCache,
    log: Callable[[str], None],
) -> ModelResults:
    values: Values = {}
    notes: list[str] = []
    for title, measure in stages.items():
        key = f"{name}: {title}"
        if key not in results_cache.entries:
            log(key)
        outcome = results_cache.get_or_measure(key, partial(_measure_or_note, title, measure))
        values |= outcome.values
        notes += outcome.notes
    origin = Origin(run.settings.train.seed, nearest_preset(run.settings), commit(), context.config.command)
    return ModelResults(name, values, origin, tuple(dict.fromkeys(notes)))


def _measure_or_note(title: str, measure: Callable[[], Outcome]) -> Outcome:
    """What the data do not allow becomes a note, and the other metrics go on."""
    try:
        return measure()
    except InputError as error:
        return Outcome({}, [f"no {title}: {error}"])


def chance_results(context: EvalContext) -> ModelResults:
    """The values that guessing reaches, where they are known."""
    values: Values = {}
    for metric in METRICS.values():
        if metric.chance is not None:
            values |= metric.chance(context)
    guess = "that two test sequences agree" if context.by_frequency else "1 / number of values"
    origin = f"{guess}; of the score, what doing nothing gets; of what is kept, what swapping all keeps"
    return ModelResults("chance", values, origin)
