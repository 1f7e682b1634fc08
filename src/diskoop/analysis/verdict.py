"""a verdict on held-out clips: variance explained, how steady the static part is, what swapping each part changes"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diskoop.analysis.decomposition import Decomposition, chunks, mean_over_frames
from diskoop.analysis.discovery.effects import measure_effects
from diskoop.data.sequences import Sequences
from diskoop.numerics.factors import SPECTRAL_PARTS

# One part in twenty would not be missed: of the variance, and of what changes when clips are exchanged.
NEGLIGIBLE = 0.05
# Less than a quarter of the variance: frames look much like the mean frame, whatever PCA does.
MIN_EXPLAINED = 0.25
# Below half of what PCA explains, most of what even a linear model of that size sees in the clips is missing: factors
# would divide up the rest.
MIN_SHARE_OF_PCA = 0.5
# A fifth of the variance within clips is half the standard deviation between them: sqrt(0.2) to sqrt(0.8). Beyond it,
# what is called static moves more than half as far inside a clip as clips lie apart.
MAX_WITHIN = 0.2
# A part that changes frames more than twice as much as the whole clip does makes frames like neither clip's.
MAX_EFFECT = 2.0

# A part that changes half as much as its own share of the variance is not empty, however small that share is.
MIN_SHARE = 0.5

TRAIN_LONGER = "train longer (train.steps or train.epochs)"


@dataclass(frozen=True)
class Verdict:
    """What a model has learnt of clips it was not trained on, beside PCA of the same size with an operator (DMD).

    Example:
        >>> poor = Verdict("4 test clips", 0.09, 0.44, 0.39, 0.12, static_effect=0.9, dynamic_effect=0.3)
        >>> poor.has_learnt, poor.problems[0][:70]
        (False, 'the model explains 9% of the variance where PCA of the same size expla')
    """

    clips: str  # how many of what, such as "36 validation clips of actions"
    explained: float  # share of the frames' variance that reconstructions explain; the mean frame explains 0
    pca_explained: float
    within: float | None  # share of the static part's variance within clips, 0: steady; None: no part, or a single clip
    pca_within: float | None
    static_effect: (
        float | None
    )  # change of frames when this part is another clip's, of that when both are; None as above
    dynamic_effect: float | None
    varies: bool = True  # whether frames differ at all
    # Share of the frames' variance between the mean frames of clips; None: not measured.
    differs: float | None = None

    @property
    def has_learnt(self) -> bool:
        """Whether the model describes its clips at all, so that its factors may mean something."""
        return self.varies and self.explained > NEGLIGIBLE and self.explained >= MIN_SHARE_OF_PCA * self.pca_explained

    @property
    def problems(self) -> list[str]:
        """A sentence on each figure that is poor, with a remedy."""
        fit = self._fit_problems()
        return [*fit, *self._static_problems(), *self._effect_problems()] if self.has_learnt else fit

    def _fit_problems(self) -> list[str]:
        explained, pca = f"{self.explained:.0%}", f"{self.pca_explained:.0%}"
        if not self.varies:
            return [
                f"nothing varies: every frame of {self.clips} is the same; it takes clips in which something changes"
            ]
        if max(self.explained, self.pca_explained) <= NEGLIGIBLE:
            return [
                f"the model explains {explained} of the variance and PCA of the same size {pca}: these clips are not "
                "like those it was trained on; it takes more clips, or more latents (model.k)"
            ]
        if not self.has_learnt:
            return [
                f"the model explains {explained} of the variance where PCA of the same size explains {pca}: it has not "
                f"learnt these clips; {TRAIN_LONGER}"
            ]
        if self.explained < MIN_EXPLAINED:
            return [
                f"the model explains {explained} of the variance, and PCA of the same size {pca}: frames look much "
                "like their mean; it takes more clips, or more latents (model.k)"
            ]
        if self.explained < self.pca_explained - NEGLIGIBLE:
            return [
                f"the model explains {explained} of the variance, less than PCA of the same size ({pca}): it is not "
                f"done learning these clips; {TRAIN_LONGER}"
            ]
        return []

    def _static_problems(self) -> list[str]:
        if self.within is None or self.within <= MAX_WITHIN:
            return []
        return [
            f"{self.within:.0%} of the static part's variance lies within clips, so it does not stay; see more time in "
            "a clip (a longer data.window, or data.every=2 of videos), or try another spectrum.static"
        ]

    def _effect_problems(self) -> list[str]:
        if self.static_effect is None or self.dynamic_effect is None:
            return []
        if max(self.static_effect, self.dynamic_effect) > MAX_EFFECT:
            return [
                f"another clip's static part changes {_share(self.static_effect)} what differs between the two and its "
                f"dynamic part {_share(self.dynamic_effect)} it, so neither can be exchanged alone; try another "
                f"spectrum.static, or {TRAIN_LONGER}"
            ]
        # Where clips hardly move, a dynamic part changes little, however good it is, and so does a static part where
        # next to all of the variance is motion.
        shares = {"static": 1.0, "dynamic": 1.0}
        if self.differs is not None:
            shares = {"static": self.differs, "dynamic": 1 - self.differs}
        remedies = {
            "static": "give it more eigenvalues (a larger spectrum.static)",
            "dynamic": "leave it more eigenvalues (a smaller spectrum.static), or see more time in a clip (a longer "
            "data.window)",
        }
        return [
            f"another clip's {part} part changes {_share(effect)} what differs between the two, so next to nothing is "
            f"in it; {remedies[part]}"
            for part, effect in (("static", self.static_effect), ("dynamic", self.dynamic_effect))
            if effect < min(NEGLIGIBLE, MIN_SHARE * shares[part])
        ]

    def sentences(self) -> list[str]:
        """The figures, and what they come to: the last is the verdict."""
        if not self.varies:  # shares of no variance would be noise
            return [self.conclusion]
        lines = [
            f"on {self.clips} the model explains {self.explained:.0%} of the variance (PCA of the same size "
            f"{self.pca_explained:.0%}, the mean frame 0%)"
        ]
        parts = []
        if self.within is not None:
            beside = "" if self.pca_within is None else f" (PCA + DMD {self.pca_within:.0%})"
            parts.append(f"{self.within:.0%} of the static part's variance lies within clips{beside}")
        if self.static_effect is not None and self.dynamic_effect is not None:
            parts.append(
                f"another clip's static part changes {_share(self.static_effect)} what differs between the two, its "
                f"dynamic part {_share(self.dynamic_effect)} it"
            )
        lines += ["; ".join(parts)] if parts else []
        return [*lines, self.conclusion]

    @property
    def conclusion(self) -> str:
        """The verdict in one line."""
        if problems := self.problems:
            return f"verdict: poor: {'. And '.join(problems)}"
        if self.within is None:
            return (
                "verdict: open: the model explains about what PCA does or more, but with a single held-out clip, or "
                "one part only, nobody can tell what stays"
            )
        return "verdict: good: the model explains about what PCA does or more, and its static part is steady"

    def as_dict(self) -> dict[str, Any]:
        """As a JSON object, with `has_learnt` and `problems`."""
        return {**asdict(self), "has_learnt": self.has_learnt, "problems": self.problems}


def _share(value: float) -> str:
    """`9% of`, or `30 times` where a per cent is hard to read."""
    return f"{value:.0%} of" if value <= MAX_EFFECT else f"{value:.0f} times"


def judge(parts: Decomposition, pca: Decomposition, clips: str, seed: int = 0) -> Verdict:
    """The verdict on decomposed clips.

    Args:
        parts: held-out clips, decomposed by the model.
        pca: the same clips, decomposed by PCA of the same size and its operator.
        clips: what they are, in words.
        seed: of the draw of donors.
    """
    is_split = bool(parts.static_modes.any()) and not bool(parts.static_modes.all())
    effects: list[float | None] = [None, None]
    if is_split and len(parts) > 1:
        effects = [*measure_effects(parts, [parts.factors[part].projector for part in SPECTRAL_PARTS], seed)]
    return Verdict(
        clips,
        explained=variance_explained(parts.clips, parts.decoded()),
        pca_explained=variance_explained(pca.clips, pca.decoded()),
        within=variance_within(parts.static, parts.mask) if is_split and len(parts) > 1 else None,
        pca_within=variance_within(pca.static, pca.mask) if is_split and len(parts) > 1 else None,
        static_effect=effects[0],
        dynamic_effect=effects[1],
        varies=has_variance(parts.clips),
        differs=variance_between(parts.clips),
    )


def has_variance(clips: Sequences) -> bool:
    """Whether any frame of the sequences differs from the first one."""
    double = torch.zeros((), dtype=torch.float64)
    first = clips.batch(np.arange(1), double)[0][0, 0]
    for indices in chunks(len(clips)):
        x, mask = clips.batch(indices, double)
        differs = (x != first).flatten(2).any(-1)  # (count, time)
        if bool((differs if mask is None else differs & mask).any()):
            return True
    return False


def variance_explained(clips: Sequences, decoded: Iterable[Tensor]) -> float:
    """The share of the frames' variance that their reconstructions explain; their mean frame explains 0.

    It is measured in the model's units, in which all features of a signal have the same scale.

    Args:
        clips: the sequences.
        decoded: their reconstructions in the data's units, chunks (count, time, ...).
    """
    start = count = 0
    double = torch.zeros((), dtype=torch.float64)
    error = squares = 0.0
    total: Tensor | float = 0.0
    for chunk in decoded:
        x, mask = clips.batch(np.arange(start, start + len(chunk)), double)
        start += len(chunk)
        y = clips.units.to_model(chunk.cpu().double())[:, : x.shape[1]]
        real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        x, y = x[real], y[real]  # (frames, ...)
        error += float((y - x).square().sum())
        squares += float(x.square().sum())
        total, count = total + x.sum(0), count + len(x)
    spread = squares - float(torch.as_tensor(total).square().sum()) / count
    return 1 - error / spread if spread > 0 else 1.0


def variance_between(clips: Sequences) -> float:
    """The share of the frames' variance that lies between the mean frames of sequences, in the model's units."""
    double = torch.zeros((), dtype=torch.float64)
    within = squares = 0.0
    count, total = 0, torch.zeros(())
    for indices in chunks(len(clips)):
        x, mask = clips.batch(indices, double)
        real = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        within += float(_less_mean(x.flatten(2), real).square().sum())
        squares += float(x[real].square().sum())
        total, count = total + x[real].sum(0), count + int(real.sum())
    spread = squares - float(total.square().sum()) / count
    return 1 - within / spread if spread > 0 else 0.0


def _less_mean(x: Tensor, real: Tensor) -> Tensor:
    """Frames (count, time, features) less their mean over the time that exists; 0 where none does."""
    return torch.where(real.unsqueeze(-1), x - mean_over_frames(x, real).unsqueeze(1), 0.0)


def variance_within(z: Tensor, mask: Tensor | None = None) -> float:
    """The share of the variance of codes (n, time, k) that lies within sequences: 0 where each has one code.

    Args:
        z: codes of every frame.
        mask: which frames exist, (n, time).

    Example:
        >>> variance_within(torch.tensor([[[0.0], [2.0]], [[4.0], [6.0]]]))  # of 1 within and 4 between
        0.2
    """
    real = torch.ones(z.shape[:2], dtype=torch.bool, device=z.device) if mask is None else mask
    z, weight = z.double(), real.unsqueeze(-1).double()
    means = (z * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)  # (n, 1, k)
    mean = (z * weight).sum((0, 1)) / weight.sum()
    within, total = (float(((z - center).square() * weight).sum()) for center in (means, mean))
    return within / total if total > 0 else 0.0
