"""edits of clips for an explorer: reconstruction, swap, sample, forecast; and the lines that make them again"""

import math
import shlex
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from diskoop.analysis.decomposition import Decomposition, FactorLike
from diskoop.analysis.sheets import RECONSTRUCTED, factor_text
from diskoop.data import Sequences, without_splits
from diskoop.errors import InputError
from diskoop.run import Run
from diskoop.settings import DataSettings
from diskoop.web.library import EXAMPLES, UPLOADS, ClipId, ClipLibrary
from diskoop.workflows.clips import find_clip

MAX_STEPS = 2000  # of a forecast
MAX_AMOUNT = 10.0
CACHED_EDITS = 16  # results that are kept, so that a picture's sound and files are not made twice
CACHED_PARTS = 64  # pairs of clips whose latents are kept, so that a slider only decodes


class EditRequest(BaseModel):
    """What to make of a clip. Clips are ids such as `test/12`.

    Example:
        >>> EditRequest(kind="swap", receiver="test/3", donor="test/7", factors=["static"]).amount
        1.0
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["original", "reconstruction", "swap", "sample", "forecast"]
    receiver: str
    donor: str | None = None  # of a swap
    factors: tuple[str, ...] = ()  # what is swapped or sampled: names of factors
    modes: tuple[int, ...] = ()  # or indices of modes, to which missing halves of pairs are added
    amount: float = Field(1.0, ge=-MAX_AMOUNT, le=MAX_AMOUNT, allow_inf_nan=False)
    seed: int = Field(0, ge=0, lt=2**31)  # of a sample
    observed: int | None = Field(None, ge=2)  # frames that a forecast starts from; None: half of the clip
    steps: int | None = Field(None, ge=1, le=MAX_STEPS)  # frames ahead; None: to the clip's end


@dataclass(frozen=True, eq=False)
class EditResult:
    """A sequence that an edit gave."""

    x: NDArray[Any]  # (time, ...) in the data's own units
    caption: str
    shell: str  # the command that makes it again; "" where there is none
    python: str  # lines of Python that make it again
    forecast_from: int | None = None  # the first frame of a forecast


class Editor:
    """Makes edits of the clips of a library with a run's model; safe to call from several threads.

    Args:
        run: its model, operator and factors.
        library: its clips.
    """

    def __init__(self, run: Run, library: ClipLibrary) -> None:
        self.run, self.library = run, library
        self._lock = RLock()  # networks use all cores: two edits at once would only slow each other down
        self._parts: OrderedDict[tuple[str, ...], Decomposition] = OrderedDict()
        self._edits: OrderedDict[EditRequest, EditResult] = OrderedDict()

    def apply(self, edit: EditRequest) -> EditResult:
        """The sequence that an edit gives.

        Raises:
            InputError: a clip or factor that does not exist, or options that do not go together.
        """
        with self._lock:
            if edit.kind == "original":
                return self._original(edit)  # read, not computed
            if edit not in self._edits:
                self._edits[edit] = getattr(self, f"_{edit.kind}")(edit)
                while len(self._edits) > CACHED_EDITS:
                    self._edits.popitem(last=False)
            self._edits.move_to_end(edit)
            return self._edits[edit]

    def stages(self, edit: EditRequest, count: int) -> list[EditResult]:
        """A swap with `count` amounts that grow evenly from 0 to the edit's own."""
        amounts = np.linspace(0, edit.amount, count).tolist()
        return [self.apply(edit.model_copy(update={"amount": amount})) for amount in amounts]

    def code(self, clips: Sequences, factor: FactorLike) -> NDArray[np.float64]:
        """(n, k): the part of the latents that belongs to `factor`, averaged over time."""
        with self._lock:
            code: NDArray[np.float64] = self.run.decompose(clips).code(factor).cpu().numpy()
        return code

    # --- kinds of edits

    def _original(self, edit: EditRequest) -> EditResult:
        clips, index = self.library.find(ClipId.parse(edit.receiver))
        load = self._load_lines([edit.receiver])
        return EditResult(_frames(clips, index), self._name(edit.receiver), "", "\n".join([*load, "x = clips.x[0]"]))

    def _reconstruction(self, edit: EditRequest) -> EditResult:
        x = self._decompose((edit.receiver,)).rows()[0][1]
        lines = [*self._load_lines([edit.receiver]), "x = run.decompose(clips).rows()[0][1]"]
        return EditResult(x, f"{self._name(edit.receiver)}, {RECONSTRUCTED}", "", "\n".join(lines))

    def _swap(self, edit: EditRequest) -> EditResult:
        if edit.donor is None:
            raise InputError("a swap needs a donor, such as test/7")
        pair = (edit.receiver, edit.donor)
        parts = self._decompose(pair)
        factor, name = self._selection(parts, edit)
        # The receiver's own frames where the donor is longer; a donor that is shorter ends the swap with it.
        swapped = parts.swap(factor, {0: 1}, edit.amount)
        x = swapped.select([0]).rows()[0][1]
        by = "" if edit.amount == 1 else f" by {edit.amount:g}"
        caption = f"{self._name(edit.receiver)} with {name} of {self._name(edit.donor)}{by}"
        amount = "" if edit.amount == 1 else f", amount={edit.amount:g}"
        lines = [
            *self._load_lines(pair),
            f"x = run.decompose(clips).swap({factor!r}, donor={{0: 1}}{amount}).rows()[0][1]",
        ]
        return EditResult(x, caption, self._swap_command(edit, factor), "\n".join(lines))

    def _sample(self, edit: EditRequest) -> EditResult:
        receiver = ClipId.parse(edit.receiver)
        clips, index = self.library.find(receiver)
        others = [i for i in range(len(clips)) if i != index]
        if len(others) < 2:
            raise InputError(f"a sample is mixed from two other clips, and {clips.name} has {len(clips)} in all")
        random = np.random.Generator(np.random.PCG64(edit.seed))
        first, second = random.choice(others, 2, replace=False).tolist()
        share = float(random.uniform())
        shift = receiver.index - index  # of ids against indices, in uploads
        ids = (edit.receiver, *(str(ClipId(receiver.split, i + shift)) for i in (first, second)))
        parts = self._decompose(ids)
        factor, name = self._selection(parts, edit)
        weights = [[0.0, share, 1 - share], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        x = parts.mix(factor, torch.tensor(weights, dtype=torch.float64)).select([0]).rows()[0][1]
        donors = f"{self._name(ids[1])} ({share:.0%}) and {self._name(ids[2])} ({1 - share:.0%})"
        lines = [
            "import torch",
            *self._load_lines(ids),
            f"weights = torch.tensor([[0, {share!r}, {1 - share!r}], [0, 1, 0], [0, 0, 1]])",
            f"x = run.decompose(clips).mix({factor!r}, weights).rows()[0][1]",
        ]
        return EditResult(x, f"{self._name(edit.receiver)} with {name} mixed from {donors}", "", "\n".join(lines))

    def _forecast(self, edit: EditRequest) -> EditResult:
        clips, index = self.library.find(ClipId.parse(edit.receiver))
        length = int(clips.lengths[index])
        observed = edit.observed or max(2, length // 2)
        if observed > length:
            raise InputError(f"expected from 2 to {length} observed frames, which this clip has, got {observed}")
        steps = edit.steps or max(length - observed, 1)
        # Decomposed by themselves: an encoder must not see what it forecasts.
        past = replace(clips.select([index]), lengths=np.array([observed]))
        x = self.run.decompose(past).forecast(steps).rows()[0][1]
        lines = [
            "from dataclasses import replace",
            "import numpy as np",
            *self._load_lines([edit.receiver]),
            f"past = replace(clips, lengths=np.array([{observed}]))",
            f"x = run.decompose(past).forecast({steps}).rows()[0][1]",
        ]
        caption = f"{self._name(edit.receiver)}, forecast after {observed} frames"
        return EditResult(x, caption, "", "\n".join(lines), forecast_from=observed)

    # --- helpers

    def _selection(self, parts: Decomposition, edit: EditRequest) -> tuple[list[str] | list[int], str]:
        """What is taken from a donor, and its name in a caption."""
        if bool(edit.factors) == bool(edit.modes):
            raise InputError(f"expected factors or modes to take, got {list(edit.factors)} and {list(edit.modes)}")
        if edit.modes:
            modes = parts.spectrum.complete(edit.modes)
            return modes, f"mode{'s' if len(modes) > 1 else ''} {', '.join(map(str, modes))}"
        return list(edit.factors), " and ".join(factor_text(name) for name in edit.factors)

    def _decompose(self, ids: tuple[str, ...]) -> Decomposition:
        """Clips of any splits and lengths in one decomposition."""
        if ids not in self._parts:
            found = [self.library.find(ClipId.parse(text)) for text in ids]
            frames = [_frames(*each) for each in found]
            lengths = np.array([len(x) for x in frames])
            clips = Sequences(np.concatenate(frames), lengths.cumsum() - lengths, lengths, units=found[0][0].units)
            self._parts[ids] = self.run.decompose(clips)
            while len(self._parts) > CACHED_PARTS:
                self._parts.popitem(last=False)
        self._parts.move_to_end(ids)
        return self._parts[ids]

    def _name(self, text: str) -> str:
        clips, index = self.library.find(ClipId.parse(text))
        return clips.sequence_name(index)

    def _load_lines(self, ids: Sequence[str]) -> list[str]:
        """Python that loads the run and, as `clips`, some clips."""
        lines = ["import diskoop", f"run = diskoop.load({self.run.folder.name!r})"]
        clips = [ClipId.parse(text) for text in ids]
        splits = {clip.split for clip in clips}
        if splits == {clips[0].split} and UPLOADS not in splits:
            return [*lines, f"clips = {_data(clips[0].split)}.select({[clip.index for clip in clips]})"]
        # Arrays of one length: an edit has the frames that all of its clips have.
        frames = min(int(found.lengths[index]) for found, index in map(self.library.find, clips))
        sources = [f"{self._source(clip)}.x[:, :{frames}]" for clip in clips]
        return ["import numpy as np", *lines, f"clips = np.concatenate([{', '.join(sources)}])"]

    def _source(self, clip: ClipId) -> str:
        """Python that loads one clip."""
        if clip.split != UPLOADS:
            return f"{_data(clip.split)}.select([{clip.index}])"
        name, index = self.library.upload_name(clip), self.library.find(clip)[1]
        settings = without_splits(self.run.settings_for(name))
        options = {key: value for key, value in settings if key != "path" and value != getattr(DataSettings(), key)}
        words = "".join(f", {key}={value!r}" for key, value in options.items())
        return f"diskoop.load_data({name!r}, 'all'{words}).select([{index}])"

    def _swap_command(self, edit: EditRequest, factor: list[str] | list[int]) -> str:
        receiver, donor = ClipId.parse(edit.receiver), ClipId.parse(edit.donor or "")
        clips = [self._clip_word(clip) for clip in (receiver, donor)]
        if receiver.split != donor.split or receiver.split == UPLOADS or None in clips:
            return ""
        words = ["diskoop", "swap", self.run.folder.name, *map(str, factor)]
        words += ["--pair", ":".join(filter(None, clips))]
        words += [] if receiver.split == EXAMPLES else ["--split", receiver.split]  # which commands take by themselves
        if not math.isclose(edit.amount, 1):
            words += ["--amount", f"{edit.amount:g}"]
        return shlex.join(words)

    def _clip_word(self, clip: ClipId) -> str | None:
        """A clip on the command line: its number, or its name if another is called by that; None: neither finds it."""
        clips, index = self.library.find(clip)
        for word in (str(index), clips.clip_name(index)):
            with suppress(InputError):
                if find_clip(clips, word) == index:
                    return word
        return None


def _data(split: str) -> str:
    """Python that loads a split of a run's own clips."""
    return "run.examples()" if split == EXAMPLES else f"run.data({split!r})"


def _frames(clips: Sequences, index: int) -> NDArray[Any]:
    """A sequence (time, ...) as it was given."""
    x: NDArray[Any] = clips.read([index])[0]
    return x
