"""classifiers that referee outputs

A judge looks at sequences, drawn or decoded, and says for every label which value it sees. It has a network of its own
and learns from the training split alone, so that it owes nothing to the model it judges; how often it is right on clean
test sequences is measured once and goes wherever its verdicts go. A judge of frames looks at one frame at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rich.progress import Progress
from torch import Tensor, nn
from torch.nn import functional

from diskoop.analysis.decomposition import at_once, chunks
from diskoop.data.cache import digest
from diskoop.data.sequences import Array, Indices, Sequences, Units, bits, mask_of, sent
from diskoop.errors import InputError
from diskoop.evaluation.metrics import real_lengths
from diskoop.models.frames import of_real_frames
from diskoop.settings import DataSettings, TrainSettings
from diskoop.storage import cache_folder
from diskoop.training.batches import read_ahead
from diskoop.training.checkpoint import load_weights, read_tensors, write_tensors
from diskoop.training.loop import learning_rate
from diskoop.training.progress import Reporter

RECIPE = 1  # raise it with every change to how a judge is built or trained: those in caches are then trained anew
STEPS = 1000  # enough for the hardest label of the sets here, whatever the size of the set
PACE = TrainSettings(batch=32, lr=3e-3, schedule="cosine", warmup=100)
WIDTH = 64  # of a frame's code
ACROSS = 32  # pixels; larger frames are averaged down to it, for what a label names is larger than a pixel
FRAMES = 4  # out of each sequence, for a judge of frames
BLUR = 1.5  # pixels: the strongest blur of a training clip
NOISE = 0.03  # in the model's units: the strongest noise
FLOORS = {"sprites": 0.99, "puppets": 0.99}  # what a judge of these sets must reach for its verdicts to count
GOOD = 0.99  # elsewhere a label may be harder to tell; below this it is said
GLIMPSES = 4096  # sequences of which a frame is looked at to tell whether data have changed


Frames = ArrayLike | Tensor | Iterator[Tensor]  # sequences (n, time, ...), or chunks of them as they come


@dataclass(frozen=True, eq=False)
class Judge:
    """A trained classifier that gives a verdict for each label, and what is known of its own mistakes."""

    network: "Network"
    values: Mapping[str, Sequence[str]]  # label -> what each code means
    accuracy: Mapping[str, float]  # label -> share of the clean test sequences that it names rightly
    left_out: Mapping[str, str]  # label -> why it cannot be judged
    units: Units  # of what it looks at
    tested: int  # how many test sequences, or frames, `accuracy` is about
    of_frames: bool = False  # it was shown single frames

    def __repr__(self) -> str:
        return f"Judge({', '.join(self.labels)})"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.values)

    def describe(self) -> str:
        """One line for whoever reads its verdicts: how often it is right itself, and what it does not judge."""
        shares = ", ".join(f"{label} {share:.1%}" for label, share in self.accuracy.items())
        missing = [f"{label} is left out: {why}" for label, why in self.left_out.items()]
        return "; ".join([f"judge: {shares} on {self.tested} clean test {self._looks_at}", *missing])

    @property
    def _looks_at(self) -> str:
        return "frames" if self.of_frames else "sequences"

    def require(self, settings: DataSettings, without: Sequence[str] = ()) -> str:
        """What to say of its floor on the set of `settings`; an InputError if it stays below one that it must reach.

        Labels `without` which it is used do not count.
        """
        name = settings.name or ("puppets" if settings.path is None else None)
        floor = FLOORS.get(name or "")
        asked = {label: share for label, share in self.accuracy.items() if label not in without}
        poor = {label: share for label, share in asked.items() if share < (floor or GOOD)}
        shares = ", ".join(f"{label} {share:.2%}" for label, share in poor.items())  # 98.99% is not 99.0%
        if floor is None:
            weak = f"; below {GOOD:.0%}, so read what it says of them with care: {shares}" if poor else ""
            return f"judge's floor: none for this set{weak}"
        if poor:
            raise InputError(
                f"the judge is too poor to score anything: on {self.tested} clean test {self._looks_at} of {name} it "
                f"must name {floor:.0%} of every label rightly, got {shares}"
            )
        return f"judge's floor: {floor:.0%} on {name}, reached"

    def predict_frames(self, x: Frames, lengths: ArrayLike | None = None) -> dict[str, Indices]:
        """label -> (n, time): the code that each frame shows by itself, whatever comes before and after."""
        there: list[NDArray[np.bool_]] = []  # (some, time) for each chunk

        def alone() -> Iterator[Tensor]:
            for some, real in self._chunks(x, lengths):
                there.append(np.arange(some.shape[1]) < real[:, None])
                at = sent(torch.from_numpy(np.flatnonzero(there[-1])), some.device)
                yield bits(some.flatten(0, 1))[at].view(some.dtype).unsqueeze(1)

        seen = self.predict(alone())
        inside = np.concatenate(there)
        codes = {label: np.full(inside.shape, -1, np.int64) for label in self.labels}
        for label, some in seen.items():
            codes[label][inside] = some
        return codes

    def predict(self, x: Frames, lengths: ArrayLike | None = None) -> dict[str, Indices]:
        """label -> (n,): the code of the value that each sequence shows. `x` and `lengths` as in `logits`."""
        return {label: logits.argmax(1) for label, logits in self.logits(x, lengths).items()}

    @torch.no_grad()
    def logits(self, x: Frames, lengths: ArrayLike | None = None) -> dict[str, NDArray[np.float32]]:
        """label -> (n, values), for sequences (n, time, ...) in the user's units, whole or chunk by chunk.

        `lengths` (n,) says how many frames of each are real; what stands behind them is not looked at. Where
        they are equal, nothing waits for a GPU until all chunks have been looked at.
        """
        self.network.eval()
        weight = next(self.network.parameters())
        classes = [len(names) for names in self.values.values()]
        verdicts = [weight.new_empty(0, sum(classes))]
        finite = torch.ones((), dtype=torch.bool, device=weight.device)
        for some, real in self._chunks(x, lengths):
            if len(some):
                heads, sound = self._look(some, real, weight)
                verdicts.append(torch.cat(heads, 1))
                finite = finite & sound
        seen = torch.cat(verdicts).float().cpu()
        if not finite:
            raise InputError("expected finite values to judge, got some that are infinite or no numbers")
        return {label: part.numpy() for label, part in zip(self.values, seen.split(classes, 1), strict=True)}  # type: ignore[no-untyped-call]

    def _look(self, x: Tensor, lengths: Indices, weight: Tensor) -> tuple[list[Tensor], Tensor | bool]:
        """Logits (some, values) for each label, and whether all that was looked at are numbers."""
        frames = sent(x[:, : int(lengths.max())], weight.device)
        if not self.network.is_video:  # in full precision: a large offset would eat float32's
            frames = frames.double()
        frames = self.units.to_model(frames)
        mask = None if (inside := mask_of(lengths)) is None else sent(torch.from_numpy(inside), weight.device)
        sound: Tensor | bool = True
        if x.is_floating_point():
            numbers = frames.flatten(2).isfinite().all(2)  # (some, time)
            sound = (numbers if mask is None else numbers | ~mask).all()
        return self.network(frames.to(weight), mask), sound

    def _chunks(self, x: Frames, lengths: ArrayLike | None) -> Iterator[tuple[Tensor, Indices]]:
        """As many sequences as are looked at together, and how many frames of each are real."""
        if isinstance(x, Iterator):
            real, at = None if lengths is None else np.asarray(lengths), 0
            for some in x:
                yield from self._chunks(some, None if real is None else real[at : at + len(some)])
                at += len(some)
            if real is not None and len(real) != at:
                raise InputError(f"expected {at} lengths, got {len(real)}")
            return
        seen = self._checked(x)
        size = at_once(next(self.network.parameters()).device, seen.shape[1:])
        parts = chunks(len(seen), size)
        real = real_lengths(lengths, *seen.shape[:2])
        yield from zip(seen.split(size), (real[part] for part in parts), strict=True)  # type: ignore[no-untyped-call]

    def _checked(self, x: ArrayLike | Tensor) -> Tensor:
        """`x` as a tensor where it is, or an InputError that says what it should have been."""
        given = x if isinstance(x, Tensor) else _native(np.asarray(x))
        frame, shape = self.network.frame, tuple(given.shape)
        if len(shape) != 2 + len(frame) or shape[2:] != frame or shape[1] == 0:
            raise InputError(f"expected sequences (n, time, {', '.join(map(str, frame))}) to judge, got {shape}")
        name = str(given.dtype).removeprefix("torch.")
        # Fractions where whole numbers are the units are most likely in other units: all of 0 to 1 is black there.
        whole = self.units.dtype.startswith("uint")
        if not name.startswith(("uint", "int", "float")) or (whole and name != self.units.dtype):
            raise InputError(f"expected values as {self.units.dtype} to judge, got {name}")
        return given if isinstance(given, Tensor) else torch.from_numpy(given)


def _native(x: Array) -> Array:
    """As torch takes it."""
    return np.ascontiguousarray(x, x.dtype.newbyteorder("="))


class Network(nn.Module):
    """(batch, time, ...) in the model's units -> logits (batch, values) for each label."""

    def __init__(self, frame: Sequence[int], classes: Sequence[int]) -> None:
        super().__init__()
        self.frame = tuple(frame)
        self.look = _picture_reader(frame[0]) if self.is_video else nn.Linear(frame[0], WIDTH)
        self.near = nn.Conv1d(WIDTH + 1, WIDTH, 3, padding=1)
        self.wide = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, dilation=2)
        self.heads = nn.ModuleList(nn.Linear(2 * WIDTH, count) for count in classes)

    @property
    def is_video(self) -> bool:
        return len(self.frame) == 3

    def forward(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        codes = functional.relu(of_real_frames(self.look, x, mask))  # (batch, time, width)
        real = codes.new_ones(codes.shape[:2]) if mask is None else mask.to(codes)
        lengths = real.sum(1, keepdim=True)  # (batch, 1)
        # When each frame comes, from 0 for the first to 1 for the last: some labels are about how a sequence begins.
        when = torch.arange(codes.shape[1], device=codes.device) / (lengths - 1).clamp(min=1)
        h = torch.cat([codes, when.unsqueeze(-1)], -1).transpose(1, 2)  # (batch, width + 1, time)
        real = real.unsqueeze(1)
        # Padding is set to the zeros that convolutions put around a sequence, so it is as if there were none.
        h = functional.relu(self.near(h * real))
        h = functional.relu(self.wide(h * real)) * real  # (batch, width, time)
        seen = torch.cat([h.sum(-1) / lengths, h.amax(-1)], -1)  # what shows on the whole, and what shows once
        return [head(seen) for head in self.heads]


class _Smaller(nn.Module):
    """Frames averaged down to ACROSS pixels; those that have as many are left alone, which pooling takes long to do."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[-2:] == (ACROSS, ACROSS) else functional.adaptive_avg_pool2d(x, ACROSS)


def _picture_reader(channels: int) -> nn.Sequential:
    """Frames (n, channel, height, width) -> (n, WIDTH)."""
    layers: list[nn.Module] = [_Smaller()]
    for after in (WIDTH // 4, WIDTH // 2, WIDTH):
        # No bias: batch norm would take it away again.
        layers += [nn.Conv2d(channels, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        channels = after
    layers += [nn.Flatten(), nn.Linear(WIDTH * (ACROSS // 8) ** 2, WIDTH)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def train_judge(
    everything: Sequences,
    seed: int = 0,
    device: str = "cpu",
    steps: int = STEPS,
    reporter: Reporter | None = None,
    of_frames: bool = False,
) -> Judge:
    """A judge of every label that can be judged, trained on the training split and measured on the test split.

    The rate of learning falls to nothing, so the last step is the one to keep and no split is needed to choose it.
    """
    train_set, test_set = everything.part("train"), everything.part("test")
    left_out = {label: why for label in everything.labels if (why := _why_not(everything, label))}
    values = {label: _names(everything, label) for label in everything.labels if label not in left_out}
    if not values:
        reasons = "; ".join(f"{label}: {why}" for label, why in left_out.items()) or "it has no labels"
        raise InputError(f"nothing in {everything.name} can be judged: {reasons}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(everything.shape[2:], [len(names) for names in values.values()])
    reporter = reporter or Reporter()
    of = "single frames of " if of_frames else ""
    reporter.say(f"training a judge of {', '.join(values)} on {of}{len(train_set)} sequences of {everything.name}")
    _fit(network.to(device), train_set, list(values), seed, steps, reporter, of_frames)
    tested = int(test_set.lengths.sum()) if of_frames else len(test_set)
    judge = Judge(network.eval(), values, {}, left_out, everything.units, tested, of_frames)
    return replace(judge, accuracy=_accuracy(judge, test_set))


def _names(everything: Sequences, label: str) -> tuple[str, ...]:
    """What the codes of a label mean; themselves, where nobody said."""
    return tuple(everything.values.get(label) or map(str, range(int(everything.labels[label].max()) + 1)))


def _why_not(everything: Sequences, label: str) -> str | None:
    """The reason why a label cannot be judged, if there is one."""
    names = _names(everything, label)
    trained, tested = (np.unique(everything.part(split).labels[label]) for split in ("train", "test"))
    if len(trained) < 2:
        return f"all training sequences show {names[trained[0]]}"
    if len(new := np.setdiff1d(tested, trained)):
        few = ", ".join(names[code] for code in new[:3])
        others = f" and {len(new) - 3} more" if len(new) > 3 else ""
        return f"the test sequences show {few}{others}, which no training sequence does"
    return None


def _fit(
    network: Network,
    data: Sequences,
    labels: Sequence[str],
    seed: int,
    steps: int,
    reporter: Reporter,
    of_frames: bool,
) -> None:
    weight = next(network.parameters())
    codes = [torch.from_numpy(data.labels[label]).to(weight.device) for label in labels]
    shares = [_even(code, head.out_features) for code, head in zip(codes, network.heads, strict=True)]  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(network.parameters())
    generator = torch.Generator(weight.device).manual_seed(seed)
    batches = _batches(len(data), seed, steps)
    network.train()
    with _bar(reporter) as progress:
        task = progress.add_task("judge", total=steps)
        for step, ready in enumerate(read_ahead(data, batches, weight.dtype, weight.is_cuda)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(PACE, step, steps)
            x, mask = data.deliver(ready.x, ready.mask, weight)
            chosen = sent(torch.from_numpy(ready.indices), weight.device)
            if of_frames:
                x, mask, chosen = _single_frames(x, mask, chosen, generator)
            verdicts = network(_worn(x, generator), mask)
            losses = [
                functional.cross_entropy(logits, code[chosen], share)
                for logits, code, share in zip(verdicts, codes, shares, strict=True)
            ]
            optimizer.zero_grad()
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            progress.advance(task)


def _single_frames(
    x: Tensor, mask: Tensor | None, chosen: Tensor, generator: torch.Generator
) -> tuple[Tensor, None, Tensor]:
    """Some frames out of each sequence as sequences of one frame, and whose they are."""
    lengths = torch.full((len(x),), x.shape[1], device=x.device) if mask is None else mask.sum(1)
    drawn = torch.rand((len(x), FRAMES), generator=generator, device=x.device) * lengths.unsqueeze(1)
    rows = torch.arange(len(x), device=x.device).unsqueeze(1)
    return x[rows, drawn.long()].flatten(0, 1).unsqueeze(1), None, chosen.repeat_interleave(FRAMES)


def _even(codes: Tensor, count: int) -> Tensor:
    """Weights that make every value count alike, (count,): how often a value occurs is no evidence that it is seen."""
    return 1.0 / torch.bincount(codes, minlength=count).clamp(min=1)


def _bar(reporter: Reporter) -> Progress:
    return Progress(console=reporter.console, transient=True, disable=not reporter.console.is_terminal)


def _batches(count: int, seed: int, steps: int) -> Iterator[Indices]:
    """Indices for each step: the whole set in a new order, again and again."""
    random = np.random.Generator(np.random.PCG64(seed))
    size = min(PACE.batch, count)

    def forever() -> Iterator[Indices]:
        while True:
            order = random.permutation(count)
            yield from (order[at : at + size] for at in range(0, count - size + 1, size))

    return islice(forever(), steps)


def _worn(x: Tensor, generator: torch.Generator) -> Tensor:
    """Sequences as a model may return them, a little blurred (video) and a little noisy, each to its own degree."""
    if x.ndim == 5:
        small = _Smaller()(x.flatten(0, 1))  # as the network would, and quicker to blur
        x = _blurred(small.reshape(*x.shape[:3], ACROSS, ACROSS), BLUR * _degrees(x, generator))
    noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    return x + NOISE * _degrees(x, generator) * noise


def _degrees(x: Tensor, generator: torch.Generator) -> Tensor:
    """A number from 0 to 1 for each sequence, shaped to multiply it."""
    return torch.rand((len(x), *[1] * (x.ndim - 1)), generator=generator, device=x.device, dtype=x.dtype)


def _blurred(x: Tensor, sigma: Tensor) -> Tensor:
    """Square frames (batch, time, channel, size, size) under a Gaussian of width `sigma` (batch, 1, 1, 1, 1)."""
    at = torch.arange(x.shape[-1], device=x.device, dtype=x.dtype)
    bells = torch.exp(-0.5 * ((at[:, None] - at) / sigma.clamp(min=0.1)).square())
    bells = bells / bells.sum(-1, keepdim=True)  # rows sum to 1 at the edges too: no darker rim
    return bells @ x @ bells.mT


def _accuracy(judge: Judge, data: Sequences) -> dict[str, float]:
    """label -> the share of `data` that `judge` names rightly."""
    right = dict.fromkeys(judge.labels, 0)
    look = judge.predict_frames if judge.of_frames else judge.predict
    device = next(judge.network.parameters()).device
    for indices in chunks(len(data), at_once(device, data.shape[1:])):
        for label, codes in look(data.take(indices), data.lengths[indices]).items():
            truth = data.labels[label][indices]
            right[label] += int((codes == (truth[:, None] if judge.of_frames else truth)).sum())
    return {label: count / judge.tested for label, count in right.items()}


def judge_for(
    everything: Sequences,
    settings: DataSettings,
    device: str = "cpu",
    reporter: Reporter | None = None,
    of_frames: bool = False,
) -> Judge:
    """The judge of the set that `settings` describe: from the cache, or trained now and kept there."""
    kind = "frame-judge" if of_frames else "judge"
    path = cache_folder() / f"{kind}-{_key(everything, settings)}.safetensors"
    try:
        return _load(path, everything, device)
    except InputError:  # not there yet, or damaged: either way training mends it
        judge = train_judge(everything, device=device, reporter=reporter, of_frames=of_frames)
        _save(path, judge)
        return judge


def _save(path: Path, judge: Judge) -> None:
    kept = ("values", "accuracy", "left_out", "tested", "of_frames")
    write_tensors(path, "judge", judge.network.state_dict(), {name: getattr(judge, name) for name in kept})


def _load(path: Path, everything: Sequences, device: str) -> Judge:
    """The judge that was trained on `everything`."""
    weights, record = read_tensors(path, "judge")
    network = Network(everything.shape[2:], [len(names) for names in record["values"].values()])
    load_weights(network, weights, path)
    return Judge(network.to(device).eval(), units=everything.units, **record)


def _key(everything: Sequences, settings: DataSettings) -> str:
    """What a judge depends on: its recipe, and what the splits hold that it learns from and is measured on."""
    content = sha256()
    for part in (everything.part("train"), everything.part("test")):
        few = np.unique(np.linspace(0, len(part) - 1, GLIMPSES).astype(np.int64))
        middles = part.frames[part.starts[few] + part.lengths[few] // 2]
        for array in (part.lengths, *part.labels.values(), middles):
            content.update(np.ascontiguousarray(array).data)
    # Where the files lie and how many of them a run trains on is nothing to a judge.
    choice = settings.model_dump(exclude={"path", "labels", "limit", "skip_bad"})
    values = {label: _names(everything, label) for label in everything.labels}
    return digest(RECIPE, choice, everything.shape, values, vars(everything.units), content.hexdigest())
