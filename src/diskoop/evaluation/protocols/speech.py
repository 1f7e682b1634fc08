"""metrics of speech: speaker verification by the static and the dynamic code, and a phone probe"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import chunks
from diskoop.data import open_data
from diskoop.data.formats.audio import cepstra
from diskoop.data.sequences import Sequences
from diskoop.errors import InputError, counted, suggest
from diskoop.evaluation.metrics import Summary, distinct_pairs, eer_interval, equal_error_rate
from diskoop.evaluation.protocols.probes import fit_probe
from diskoop.evaluation.registry import EvalConfig, EvalContext, Outcome, metric
from diskoop.evaluation.results import Column, Key, Table, Values, single_value
from diskoop.numerics.factors import SPECTRAL_PARTS
from diskoop.run import Run

Array = NDArray[Any]
Features = Callable[[Sequences], Array]  # sequences -> (frames, features), concatenated

SPEAKER_LABELS = ("speaker", "subject", "person", "participant", "user", "folder")
PHONE_CLIPS = 200  # recordings to learn phones from, and as many to test on
SOUND_CLUSTERS = 32  # kinds of sound, where there are no phones


def find_speaker_label(clips: Sequences, label: str | None) -> str:
    """The label that says who speaks: `label`, or by default one of SPEAKER_LABELS.

    Raises:
        InputError: if there is no such label.
    """
    if label is not None and label not in clips.labels:
        known = suggest(label, clips.labels) if clips.labels else f"{clips.name} has none"
        raise InputError(f"unknown label {label!r}; {known}")
    default = next((name for name in SPEAKER_LABELS if name in clips.labels), None)
    if (label or default) is None:
        known = ", ".join(clips.labels) or "none"
        raise InputError(
            f"{clips.name} does not say who speaks: expected a label {SPEAKER_LABELS[0]}, got {known}; --speaker-label "
            "names it"
        )
    return label or default  # type: ignore[return-value]


def whole_recordings(run: Run) -> Sequences:
    """The run's data uncut, whatever windows it was trained on: a speaker is verified by whole recordings."""
    return open_data(run.settings.data.model_copy(update={"window": None, "stride": None}))


# --- speakers


def _speaker_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    columns = [
        Column("static", "eer", "static", True, "↓"),
        Column("dynamic", "eer", "dynamic", True, "↑"),
        Column("gap", "eer", "gap", True, "↑"),
    ]
    remark = (
        "Cosine of codes averaged over time, all distinct pairs; in brackets a 95% interval over speakers. The batch "
        "operator is fitted on the evaluated set, as in the paper."
    )
    rows = {
        "batch": "batch operator",
        "frozen": "frozen operator",
        "printed": "as printed",
        "mean": "no operator",
    }
    return [Table("Speaker verification, equal error rate", columns, remark, rows)]


@metric("speakers", requires=("speakers",), tables=_speaker_tables)
def measure_speakers(run: Run, context: EvalContext) -> Outcome:
    """Equal error rates of the codes, with an operator fitted on these sequences (the paper's) and the frozen one."""
    values: Values = {}
    for operator in ("batch", "frozen"):
        parts = run.decompose(context.clips, operator)
        codes = {part: parts.code(part).cpu().numpy() for part in SPECTRAL_PARTS}
        rates = {part: verification_error(codes[part], context) for part in SPECTRAL_PARTS}
        rates["gap"] = single_value(rates["dynamic"].mean - rates["static"].mean)
        values |= {Key("eer", column, operator): rate for column, rate in rates.items()}
    return Outcome(values)


def verification_error(codes: Array, context: EvalContext) -> Summary:
    """Equal error rate of the cosine of codes (n, k), one for each of the context's clips; interval over speakers."""
    if context.speaker_label is None:
        raise InputError("expected a label that says who speaks, got None")
    codes, speakers = _by_recording(codes, context.clips, context.speaker_label)
    low, high = eer_interval(codes, speakers, context.config.generator(4))
    return Summary(equal_error_rate(*distinct_pairs(codes, speakers)), None, low, high, 1)


def _by_recording(codes: Array, clips: Sequences, label: str) -> tuple[Array, Array]:
    """One code for each recording, which may have been cut into several sequences, and its speaker."""
    if clips.clips is None:
        return codes, clips.labels[label]
    _, first, owner = np.unique(clips.clips, return_index=True, return_inverse=True)
    weight = clips.lengths / np.bincount(owner, clips.lengths)[owner]
    whole = np.zeros((len(first), codes.shape[1]))
    np.add.at(whole, owner, codes * weight[:, None])
    return whole, clips.labels[label][first]


# --- phones


def _phone_tables(labels: Sequence[str], motion_label: str | None) -> list[Table]:
    columns = [
        Column("dynamic", "phones", "dynamic", True, "↑"),
        Column("static", "phones", "static", True, "↓"),
        Column("spectrum itself", "phones", "spectrum", True),
        Column("chance", "phones", "chance", True),
    ]
    remark = (
        "Balanced accuracy of a linear probe on single frames: a code that holds nothing has a high dynamic error "
        "rate, and shows here."
    )
    return [Table("What is said", columns, remark)]


@metric("phones", requires=("speakers",), tables=_phone_tables)
def measure_phones(run: Run, context: EvalContext) -> Outcome:
    """How well a linear probe reads each frame's phone from either part, learnt from training speakers.

    A dynamic code that does not tell who speaks because it holds nothing at all shows here. Where there are no phones,
    clusters of frames take their place; a note says which.
    """
    train, test = (context.config.subset(each, PHONE_CLIPS, 5) for each in (context.train, context.clips))
    has_phones = "phone" in context.train.frame_labels
    truth = _phones(train, test) if has_phones else _cluster_sounds(train, test, context.config)
    features = {"spectrum": _scaled_frames, **{part: _part_frames(run, part) for part in SPECTRAL_PARTS}}
    values = {
        Key("phones", name): single_value(_probe_frames(each, train, test, truth, context.config.seed))
        for name, each in features.items()
    }
    count = len(np.unique(truth[0][truth[0] >= 0]))
    values[Key("phones", "chance")] = single_value(1 / count)
    kinds = f"{count} phones" if has_phones else f"{count} kinds of sound (clusters of cepstra; there are no phones)"
    note = f"the phone probe reads {kinds} from single frames, learnt from {counted(len(train), 'training recording')}"
    return Outcome(values, [note])


def _probe_frames(
    features: Features, train: Sequences, test: Sequences, truth: tuple[Array, Array], seed: int
) -> float:
    """A probe's accuracy without frames that have no phone, and test frames of phones that are not in training."""
    train_used = truth[0] >= 0
    test_used = (truth[1] >= 0) & np.isin(truth[1], truth[0])
    result = fit_probe(
        features(train)[train_used], truth[0][train_used], features(test)[test_used], truth[1][test_used], seed
    )
    return result.accuracy


def _concatenate(x: Array, clips: Sequences) -> Array:
    """(n, time, ...) -> (frames, ...) without padding."""
    inside = np.arange(x.shape[1]) < clips.lengths[:, None]
    return x[inside]


def _scaled_frames(clips: Sequences) -> Array:
    double = torch.zeros((), dtype=torch.float64)
    return np.concatenate(
        [_concatenate(clips.batch(i, double)[0].numpy(), clips.select(i)) for i in chunks(len(clips))]
    )


def _part_frames(run: Run, part: str) -> Features:
    def features(clips: Sequences) -> Array:
        parts = run.decompose(clips)
        return _concatenate(parts.factors[part].part(parts.z.double()).cpu().numpy(), clips)

    return features


def _phones(train: Sequences, test: Sequences) -> tuple[Array, Array]:
    first, second = (_concatenate(each.frame_label("phone", np.arange(len(each))), each) for each in (train, test))
    return first, second


def _cluster_sounds(train: Sequences, test: Sequences, config: EvalConfig) -> tuple[Array, Array]:
    """Clusters of frames by their cepstra, less each recording's mean, and with it most of the speaker."""
    from sklearn.cluster import MiniBatchKMeans

    first, second = (_centred_cepstra(each) for each in (train, test))
    if len(first) < SOUND_CLUSTERS:
        raise InputError(f"{len(first)} frames are too few to tell {SOUND_CLUSTERS} kinds of sound apart")
    scale = np.maximum(first.std(0), 1e-9)
    model = MiniBatchKMeans(SOUND_CLUSTERS, random_state=config.seed, n_init=3).fit(first / scale)
    return model.labels_, model.predict(second / scale)


def _centred_cepstra(clips: Sequences) -> Array:
    frames = [np.asarray(clips.frames[s : s + n], np.float64) for s, n in zip(clips.starts, clips.lengths, strict=True)]
    codes = [cepstra(x, 13) for x in frames]
    return np.concatenate([x - x.mean(0) for x in codes])
