"""who speaks, by the static and the dynamic code, and what is said: speaker verification and a phone probe"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.analysis.decomposition import chunks
from diskoop.analysis.editing import PARTS
from diskoop.data import open_data
from diskoop.data.sequences import Sequences
from diskoop.data.sound import cepstra
from diskoop.errors import InputError, suggest
from diskoop.evaluation.metrics import Summary, distinct_pairs, eer_interval, equal_error_rate
from diskoop.evaluation.probes import probe
from diskoop.evaluation.protocols import ProtocolConfig
from diskoop.evaluation.results import Figures, exactly
from diskoop.run import Run

Array = NDArray[Any]
# A sequence's latents or features frame by frame: sequences -> (frames, features), end to end.
Reader = Callable[[Sequences], Array]

WHO = ("speaker", "subject", "person", "participant", "user", "folder")  # labels that say who
PROBED = 200  # recordings to learn phones from, and as many to be tested on
CLASSES = 32  # kinds of sound, where nobody wrote down the phones


def who_speaks(clips: Sequences, label: str | None) -> str:
    """The label that says who: the one that was named, or one that is called so."""
    if label is not None and label not in clips.labels:
        known = suggest(label, clips.labels) if clips.labels else f"{clips.name} has none"
        raise InputError(f"unknown label {label!r}; {known}")
    there = next((name for name in WHO if name in clips.labels), None)
    if (label or there) is None:
        known = ", ".join(clips.labels) or "none"
        raise InputError(
            f"{clips.name} does not say who speaks: expected a label {WHO[0]}, got {known}; --who names it"
        )
    return label or there  # type: ignore[return-value]


def whole_recordings(run: Run) -> Sequences:
    """The run's data uncut, whatever windows it was trained on: a voice is judged by all that it said."""
    return open_data(run.settings.data.model_copy(update={"window": None, "stride": None}))


def speakers(run: Run, clips: Sequences, label: str, plan: ProtocolConfig) -> Figures:
    """Equal error rates of the codes, "eer/OPERATOR/PART": fitted on these very sequences (the paper's), and frozen."""
    figures: Figures = {}
    for operator in ("batch", "frozen"):
        parts = run.decompose(clips, operator)
        codes = {part: parts.code(part).cpu().numpy() for part in PARTS}
        figures |= {f"eer/{operator}/{part}": error_rate(codes[part], clips, label, plan) for part in PARTS}
        gap = figures[f"eer/{operator}/dynamic"].mean - figures[f"eer/{operator}/static"].mean
        figures[f"eer/{operator}/gap"] = exactly(gap)
    return figures


def error_rate(codes: Array, clips: Sequences, label: str, plan: ProtocolConfig) -> Summary:
    """How well the cosine of two codes (n, k) tells whether one person speaks; the interval is over speakers."""
    codes, who = _by_recording(codes, clips, label)
    low, high = eer_interval(codes, who, plan.random(4))
    return Summary(equal_error_rate(*distinct_pairs(codes, who)), None, low, high, 1)


def _by_recording(codes: Array, clips: Sequences, label: str) -> tuple[Array, Array]:
    """One code for each recording, though it may have been too long for one sequence, and who speaks in it."""
    if clips.clips is None:
        return codes, clips.labels[label]
    _, first, owner = np.unique(clips.clips, return_index=True, return_inverse=True)
    share = clips.lengths / np.bincount(owner, clips.lengths)[owner]
    whole = np.zeros((len(first), codes.shape[1]))
    np.add.at(whole, owner, codes * share[:, None])
    return whole, clips.labels[label][first]


# --- what is said


def phones(run: Run, train: Sequences, clips: Sequences, plan: ProtocolConfig) -> tuple[Figures, str]:
    """How well a linear probe reads each frame's phone, "phones/PART", learnt from speakers of `train`.

    A dynamic code that knows nothing of who speaks because it knows nothing at all shows here. Where nobody wrote down
    the phones, kinds of sound take their place; the second value says which.
    """
    some, others = (plan.some(each, PROBED, 5) for each in (train, clips))
    known = "phone" in train.tracks
    truth = _written(some, others) if known else _clustered(some, others, plan)
    figures = {
        f"phones/{name}": exactly(_read(look, some, others, truth, plan))
        for name, look in {"spectrum": _scaled, **{part: _part_of(run, part) for part in PARTS}}.items()
    }
    count = len(np.unique(truth[0][truth[0] >= 0]))
    figures["phones/chance"] = exactly(1 / count)
    said = f"{count} phones" if known else f"{count} kinds of sound (clusters of cepstra; nobody wrote down the phones)"
    return figures, f"the phone probe reads {said} from single frames, learnt from {len(some)} training recordings"


def _read(look: Reader, some: Sequences, others: Sequences, truth: tuple[Array, Array], plan: ProtocolConfig) -> float:
    known = [codes >= 0 for codes in truth]
    seen = np.isin(truth[1], truth[0])  # a phone that nobody taught cannot be asked for
    return probe(
        look(some)[known[0]],
        truth[0][known[0]],
        look(others)[known[1] & seen],
        truth[1][known[1] & seen],
        plan.seed,
    ).accuracy


def _end_to_end(x: Array, clips: Sequences) -> Array:
    """(n, time, ...) -> (frames, ...) without padding."""
    inside = np.arange(x.shape[1]) < clips.lengths[:, None]
    return x[inside]


def _scaled(clips: Sequences) -> Array:
    import torch

    double = torch.zeros((), dtype=torch.float64)
    return np.concatenate([_end_to_end(clips.batch(i, double)[0].numpy(), clips.select(i)) for i in chunks(len(clips))])


def _part_of(run: Run, part: str) -> Reader:
    def look(clips: Sequences) -> Array:
        parts = run.decompose(clips)
        return _end_to_end(parts.factors[part].part(parts.z.double()).cpu().numpy(), clips)

    return look


def _written(some: Sequences, others: Sequences) -> tuple[Array, Array]:
    first, second = (_end_to_end(each.track("phone", np.arange(len(each))), each) for each in (some, others))
    return first, second


def _clustered(some: Sequences, others: Sequences, plan: ProtocolConfig) -> tuple[Array, Array]:
    """Clusters of frames by their cepstra, each recording's own mean taken off, and with it most of the speaker."""
    from sklearn.cluster import MiniBatchKMeans

    first, second = (_without_speaker(each) for each in (some, others))
    if len(first) < CLASSES:
        raise InputError(f"{len(first)} frames are too few to tell {CLASSES} kinds of sound apart")
    scale = np.maximum(first.std(0), 1e-9)
    model = MiniBatchKMeans(CLASSES, random_state=plan.seed, n_init=3).fit(first / scale)
    return model.labels_, model.predict(second / scale)


def _without_speaker(clips: Sequences) -> Array:
    frames = [np.asarray(clips.frames[s : s + n], np.float64) for s, n in zip(clips.starts, clips.lengths, strict=True)]
    codes = [cepstra(x, 13) for x in frames]
    return np.concatenate([x - x.mean(0) for x in codes])
