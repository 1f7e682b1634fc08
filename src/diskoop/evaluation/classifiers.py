"""classifiers that score outputs

A classifier predicts the value of every label from sequences, real or decoded. It has a network of its own and is
trained on the training split alone, so it is independent of the model it scores; its accuracy on clean test sequences
is measured once and reported with every score. A frame classifier predicts from single frames.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rich.progress import Progress
from torch import Tensor, nn
from torch.nn import functional

from diskoop.analysis.decomposition import chunk_size, chunks
from diskoop.data.batches import prefetch
from diskoop.data.cache import digest
from diskoop.data.sequences import Array, Indices, Sequences, Units, bit_view, length_mask, to_device
from diskoop.errors import InputError, counted
from diskoop.evaluation.metrics import real_lengths
from diskoop.models.layers import per_frame
from diskoop.settings import DataSettings, TrainSettings
from diskoop.storage import cache_folder
from diskoop.tensor_files import load_weights, read_tensors, write_tensors
from diskoop.training.loop import learning_rate
from diskoop.training.progress import Reporter

CLASSIFIER_VERSION = 2  # raise it with every change to how a classifier is built or trained: caches are then ignored
STEPS = 1000  # enough for the hardest label of the sets here, whatever the size of the set
OPTIMIZER = TrainSettings(batch_size=32, lr=3e-3, schedule="cosine", warmup=100)
WIDTH = 64  # of a frame's code
IMAGE_SIZE = 32  # pixels; larger frames are averaged down to it, as what labels name is larger than a pixel
FRAMES_PER_CLIP = 4  # in the training batches of a frame classifier
MAX_BLUR = 1.5  # pixels, of a training clip
MAX_NOISE = 0.03  # in the model's units
REQUIRED_ACCURACY = {"sprites": 0.99, "puppets": 0.99}  # of these sets; a classifier below scores nothing
GOOD_ACCURACY = 0.99  # elsewhere a label may be harder; below this there is a note
# Where none is required, a label is scored if its classifier is at least half way from guessing the most frequent value
# to being always right: below that it misses more of what a guess misses than it finds, and scores tell of its errors.
MIN_SKILL = 0.5
MIN_DEVIATIONS = 2.0  # and above a guess by so many of its standard deviations, for a few test clips prove little
SHIPPED = Path(__file__).parent / "shipped"  # classifiers that come with the package
FINGERPRINT_CLIPS = 4096  # sequences of which a frame goes into the cache key


ClipBatches = ArrayLike | Tensor | Iterator[Tensor]  # sequences (n, time, ...), or chunks of them


@dataclass(frozen=True, eq=False)
class Classifier:
    """A trained classifier of every label, with its own accuracy.

    Args:
        network: frames in the model's units -> logits for each label.
        values: label -> what each code means.
        accuracy: label -> accuracy on clean test sequences.
        excluded: label -> why it cannot be classified, or is not; `predict` leaves it out.
        units: of the sequences.
        test_count: the number of test sequences, or frames, behind `accuracy`.
        single_frames: whether it was trained on single frames.
        chance: label -> accuracy of guessing the most frequent value of the test split; by default 1 / values.
        clip_count: the number of test clips that those sequences are windows, or frames, of; by default `test_count`.
    """

    network: "ClassifierNetwork"
    values: Mapping[str, Sequence[str]]
    accuracy: Mapping[str, float]
    excluded: Mapping[str, str]
    units: Units
    test_count: int
    single_frames: bool = False
    chance: Mapping[str, float] = field(default_factory=dict)
    clip_count: int | None = None

    def __repr__(self) -> str:
        return f"Classifier({', '.join(self.labels)})"

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that it classifies."""
        return tuple(label for label in self.values if label not in self.excluded)

    def describe(self) -> str:
        """One line: its accuracy, and which labels it does not classify."""
        accuracies = ", ".join(f"{label} {value:.1%}" for label, value in self.accuracy.items())
        missing = [f"{label} is left out: {reason}" for label, reason in self.excluded.items()]
        return "; ".join([f"classifier: {accuracies} on {self.test_count} clean test {self._inputs}", *missing])

    @property
    def _inputs(self) -> str:
        return "frames" if self.single_frames else "sequences"

    def check_accuracy(self, settings: DataSettings, ignore: Sequence[str] = ()) -> str:
        """A line on the accuracy that the set of `settings` requires; labels in `ignore` do not count.

        Raises:
            InputError: if the classifier stays below it.
        """
        name, required = _set_name(settings), _required_accuracy(settings)
        checked = {label: value for label, value in self.accuracy.items() if label not in (*ignore, *self.excluded)}
        poor = {label: value for label, value in checked.items() if value < (required or GOOD_ACCURACY)}
        listed = ", ".join(f"{label} {value:.2%}" for label, value in poor.items())  # 98.99% is not 99.0%
        if required is None:
            weak = f"; below {GOOD_ACCURACY:.0%}, so interpret these labels with care: {listed}" if poor else ""
            return f"required accuracy: none for this set{weak}"
        if poor:
            raise InputError(
                f"the classifier is too poor to score anything: on {self.test_count} clean test {self._inputs} of "
                f"{name} expected an accuracy of {required:.0%} on every label, got {listed}"
            )
        return f"required accuracy: {required:.0%} on {name}, reached"

    def reliable(self, settings: DataSettings, ignore: Sequence[str] = ()) -> "Classifier":
        """This classifier without the labels that it cannot tell; labels in `ignore` do not count.

        Where the set of `settings` requires an accuracy, `check_accuracy` decides instead.

        Raises:
            InputError: if none is left.
        """
        if _required_accuracy(settings) is not None:
            return self
        checked = [label for label in self.labels if label not in ignore]
        poor = {label: why for label in checked if (why := self._weakness(label))}
        if checked and len(poor) == len(checked):
            reasons = "; ".join(f"{label}: {why}" for label, why in {**self.excluded, **poor}.items())
            raise InputError(f"the classifier is too poor to score anything: {reasons}")
        return replace(self, excluded={**self.excluded, **poor})

    def _weakness(self, label: str) -> str | None:
        """Why nothing can be scored by a label, if nothing can."""
        accuracy, chance = self.accuracy[label], self.chance.get(label, 1 / len(self.values[label]))
        required, clips = chance + MIN_SKILL * (1 - chance), self.clip_count or self.test_count
        found = f"its accuracy is {accuracy:.1%} on {self.test_count} clean test {self._inputs}"
        if accuracy < required - 1e-9:  # not by rounding
            return f"{found}, and half way from guessing ({chance:.1%}) to being always right are {required:.1%}"
        if accuracy <= chance + MIN_DEVIATIONS * (chance * (1 - chance) / clips) ** 0.5:
            return f"{found}, which guessing ({chance:.1%}) may reach by luck on {counted(clips, 'clip')}"
        return None

    def predict_frames(self, x: ClipBatches, lengths: ArrayLike | None = None) -> dict[str, Indices]:
        """Label -> (n, time): the value predicted from each frame alone; -1 behind the end of a sequence."""
        masks: list[NDArray[np.bool_]] = []  # (some, time) for each chunk

        def frames() -> Iterator[Tensor]:
            for some, real in self._chunks(x, lengths):
                masks.append(np.arange(some.shape[1]) < real[:, None])
                at = to_device(torch.from_numpy(np.flatnonzero(masks[-1])), some.device)
                yield bit_view(some.flatten(0, 1))[at].view(some.dtype).unsqueeze(1)

        predicted = self.predict(frames())
        inside = np.concatenate(masks)
        codes = {label: np.full(inside.shape, -1, np.int64) for label in self.labels}
        for label, some in predicted.items():
            codes[label][inside] = some
        return codes

    def predict(self, x: ClipBatches, lengths: ArrayLike | None = None) -> dict[str, Indices]:
        """Label -> (n,): the predicted value of each sequence. Arguments as in `logits`."""
        return {label: logits.argmax(1) for label, logits in self.logits(x, lengths).items()}

    @torch.no_grad()
    def logits(self, x: ClipBatches, lengths: ArrayLike | None = None) -> dict[str, NDArray[np.float32]]:
        """Label -> logits (n, values).

        Where lengths are equal, nothing waits for a GPU before the last chunk.

        Args:
            x: sequences (n, time, ...) in the user's units, whole or chunk by chunk.
            lengths: (n,), how many frames of each sequence are real; the others are ignored.
        """
        self.network.eval()
        weight = next(self.network.parameters())
        classes = [len(names) for names in self.values.values()]
        outputs = [weight.new_empty(0, sum(classes))]
        finite = torch.ones((), dtype=torch.bool, device=weight.device)
        for some, real in self._chunks(x, lengths):
            if len(some):
                heads, is_finite = self._forward(some, real, weight)
                outputs.append(torch.cat(heads, 1))
                finite = finite & is_finite
        logits = torch.cat(outputs).float().cpu()
        if not finite:
            raise InputError("expected finite values to classify, got some that are infinite or no numbers")
        by_label = zip(self.values, logits.split(classes, 1), strict=True)  # type: ignore[no-untyped-call]
        return {label: part.numpy() for label, part in by_label if label not in self.excluded}

    def _forward(self, x: Tensor, lengths: Indices, weight: Tensor) -> tuple[list[Tensor], Tensor | bool]:
        """Logits (n, values) for each label, and whether all real frames are finite."""
        frames = to_device(x[:, : int(lengths.max())], weight.device)
        if not self.network.is_video:  # a large offset would exceed float32's precision
            frames = frames.double()
        frames = self.units.to_model(frames)
        mask = None if (inside := length_mask(lengths)) is None else to_device(torch.from_numpy(inside), weight.device)
        is_finite: Tensor | bool = True
        if x.is_floating_point():
            numbers = frames.flatten(2).isfinite().all(2)  # (some, time)
            is_finite = (numbers if mask is None else numbers | ~mask).all()
        return self.network(frames.to(weight), mask), is_finite

    def _chunks(self, x: ClipBatches, lengths: ArrayLike | None) -> Iterator[tuple[Tensor, Indices]]:
        """Chunks of sequences that go through the network at once, and how many frames of each are real."""
        if isinstance(x, Iterator):
            real, at = None if lengths is None else np.asarray(lengths), 0
            for some in x:
                yield from self._chunks(some, None if real is None else real[at : at + len(some)])
                at += len(some)
            if real is not None and len(real) != at:
                raise InputError(f"expected {at} lengths, got {len(real)}")
            return
        clips = self._check_sequences(x)
        size = chunk_size(next(self.network.parameters()).device, clips.shape[1:])
        parts = chunks(len(clips), size)
        real = real_lengths(lengths, *clips.shape[:2])
        yield from zip(clips.split(size), (real[part] for part in parts), strict=True)  # type: ignore[no-untyped-call]

    def _check_sequences(self, x: ArrayLike | Tensor) -> Tensor:
        """`x` as a tensor on its device, or an InputError if its shape or dtype is wrong."""
        given = x if isinstance(x, Tensor) else _to_native_order(np.asarray(x))
        frame, shape = self.network.frame, tuple(given.shape)
        if len(shape) != 2 + len(frame) or shape[2:] != frame or shape[1] == 0:
            raise InputError(f"expected sequences (n, time, {', '.join(map(str, frame))}) to classify, got {shape}")
        name = str(given.dtype).removeprefix("torch.")
        # Fractions where integers are expected are most likely in other units: all of 0 to 1 is black there.
        whole = self.units.dtype.startswith("uint")
        if not name.startswith(("uint", "int", "float")) or (whole and name != self.units.dtype):
            raise InputError(f"expected values as {self.units.dtype} to classify, got {name}")
        return given if isinstance(given, Tensor) else torch.from_numpy(given)


def _set_name(settings: DataSettings) -> str | None:
    """The name of the set that `settings` describe; None of the user's own files."""
    return settings.name or ("puppets" if settings.path is None else None)


def _required_accuracy(settings: DataSettings) -> float | None:
    return REQUIRED_ACCURACY.get(_set_name(settings) or "")


def is_own_data(settings: DataSettings) -> bool:
    """Whether `settings` describe the user's own files, with whatever frequencies of labels they have."""
    return _set_name(settings) is None


def _to_native_order(x: Array) -> Array:
    """Contiguous and in the machine's byte order, as torch needs it."""
    return np.ascontiguousarray(x, x.dtype.newbyteorder("="))


class ClassifierNetwork(nn.Module):
    """(batch, time, ...) in the model's units -> logits (batch, values) for each label."""

    def __init__(self, frame: Sequence[int], classes: Sequence[int]) -> None:
        super().__init__()
        self.frame = tuple(frame)
        self.encoder = _build_image_encoder(frame[0]) if self.is_video else nn.Linear(frame[0], WIDTH)
        self.conv1 = nn.Conv1d(WIDTH + 1, WIDTH, 3, padding=1)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, dilation=2)
        self.heads = nn.ModuleList(nn.Linear(2 * WIDTH, count) for count in classes)

    @property
    def is_video(self) -> bool:
        return len(self.frame) == 3

    def forward(self, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        codes = functional.relu(per_frame(self.encoder, x, mask))  # (batch, time, width)
        real = codes.new_ones(codes.shape[:2]) if mask is None else mask.to(codes)
        lengths = real.sum(1, keepdim=True)  # (batch, 1)
        # Time from 0 for the first frame to 1 for the last: some labels are about how a sequence begins.
        time = torch.arange(codes.shape[1], device=codes.device) / (lengths - 1).clamp(min=1)
        h = torch.cat([codes, time.unsqueeze(-1)], -1).transpose(1, 2)  # (batch, width + 1, time)
        real = real.unsqueeze(1)
        # Padded frames are zero, as convolutions pad, so results do not depend on padding.
        h = functional.relu(self.conv1(h * real))
        h = functional.relu(self.conv2(h * real)) * real  # (batch, width, time)
        pooled = torch.cat([h.sum(-1) / lengths, h.amax(-1)], -1)  # (batch, 2 * width)
        return [head(pooled) for head in self.heads]


class _Downsample(nn.Module):
    """Frames averaged down to IMAGE_SIZE pixels; frames of that size skip pooling, which is slow."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[-2:] == (IMAGE_SIZE, IMAGE_SIZE) else functional.adaptive_avg_pool2d(x, IMAGE_SIZE)


def _build_image_encoder(channels: int) -> nn.Sequential:
    """Frames (n, channel, height, width) -> (n, WIDTH)."""
    layers: list[nn.Module] = [_Downsample()]
    for after in (WIDTH // 4, WIDTH // 2, WIDTH):
        # No bias: batch norm would remove it.
        layers += [nn.Conv2d(channels, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        channels = after
    layers += [nn.Flatten(), nn.Linear(WIDTH * (IMAGE_SIZE // 8) ** 2, WIDTH)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def train_classifier(
    everything: Sequences,
    seed: int = 0,
    device: str = "cpu",
    steps: int = STEPS,
    reporter: Reporter | None = None,
    single_frames: bool = False,
) -> Classifier:
    """Train a classifier of every label on the training split and measure its accuracy on the test split.

    The learning rate decays to 0, so the last step is kept and no validation is needed to choose one.

    Args:
        everything: all splits of a set.
        seed: of the weights, the batches and the augmentation.
        device: to train on.
        steps: of training.
        reporter: shows progress.
        single_frames: train on single frames, for `predict_frames`.

    Raises:
        InputError: if no label can be classified.
    """
    train_set, test_set = everything.split("train"), everything.split("test")
    excluded = {label: why for label in everything.labels if (why := _exclusion_reason(everything, label))}
    values = {label: _value_names(everything, label) for label in everything.labels if label not in excluded}
    if not values:
        reasons = "; ".join(f"{label}: {why}" for label, why in excluded.items()) or "it has no labels"
        raise InputError(f"nothing in {everything.name} can be classified: {reasons}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ClassifierNetwork(everything.shape[2:], [len(names) for names in values.values()])
    reporter = reporter or Reporter()
    of = "single frames of " if single_frames else ""
    given = f"{of}{counted(len(train_set), 'sequence')} of {everything.name}"
    reporter.log(f"training a classifier of {', '.join(values)} on {given}")
    _fit_network(network.to(device), train_set, list(values), seed, steps, reporter, single_frames)
    test_count = int(test_set.lengths.sum()) if single_frames else len(test_set)
    classifier = Classifier(
        network.eval(),
        values,
        {},
        excluded,
        everything.units,
        test_count,
        single_frames,
        _guess_accuracy(test_set),
        test_set.clip_count,
    )
    return replace(classifier, accuracy=_test_accuracy(classifier, test_set))


def _value_names(everything: Sequences, label: str) -> tuple[str, ...]:
    """What the codes of a label mean; by default the codes themselves."""
    return tuple(everything.values.get(label) or map(str, range(int(everything.labels[label].max()) + 1)))


def _exclusion_reason(everything: Sequences, label: str) -> str | None:
    """Why a label cannot be classified, if it cannot."""
    names = _value_names(everything, label)
    train_codes, test_codes = (np.unique(everything.split(split).labels[label]) for split in ("train", "test"))
    if len(train_codes) < 2:
        return f"all training sequences show {names[train_codes[0]]}"
    if len(new := np.setdiff1d(test_codes, train_codes)):
        few = ", ".join(names[code] for code in new[:3])
        others = f" and {len(new) - 3} more" if len(new) > 3 else ""
        return f"the test sequences show {few}{others}, which no training sequence does"
    return None


def _fit_network(
    network: ClassifierNetwork,
    data: Sequences,
    labels: Sequence[str],
    seed: int,
    steps: int,
    reporter: Reporter,
    single_frames: bool,
) -> None:
    weight = next(network.parameters())
    codes = [torch.from_numpy(data.labels[label]).to(weight.device) for label in labels]
    class_weights = [_class_weights(code, head.out_features) for code, head in zip(codes, network.heads, strict=True)]  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(network.parameters())
    generator = torch.Generator(weight.device).manual_seed(seed)
    batches = _batches(len(data), seed, steps)
    network.train()
    with _progress_bar(reporter) as progress:
        task = progress.add_task("classifier", total=steps)
        for step, batch in enumerate(prefetch(data, batches, weight.dtype, weight.is_cuda)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(OPTIMIZER, step, steps)
            x, mask = data.move_batch(batch.x, batch.mask, weight)
            chosen = to_device(torch.from_numpy(batch.indices), weight.device)
            if single_frames:
                x, mask, chosen = _sample_single_frames(x, mask, chosen, generator)
            outputs = network(_augment(x, generator), mask)
            losses = [
                functional.cross_entropy(logits, code[chosen], weights)
                for logits, code, weights in zip(outputs, codes, class_weights, strict=True)
            ]
            optimizer.zero_grad()
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            progress.advance(task)


def _sample_single_frames(
    x: Tensor, mask: Tensor | None, chosen: Tensor, generator: torch.Generator
) -> tuple[Tensor, None, Tensor]:
    """FRAMES_PER_CLIP random frames of each sequence as sequences of one frame, and their indices."""
    lengths = torch.full((len(x),), x.shape[1], device=x.device) if mask is None else mask.sum(1)
    drawn = torch.rand((len(x), FRAMES_PER_CLIP), generator=generator, device=x.device) * lengths.unsqueeze(1)
    rows = torch.arange(len(x), device=x.device).unsqueeze(1)
    return x[rows, drawn.long()].flatten(0, 1).unsqueeze(1), None, chosen.repeat_interleave(FRAMES_PER_CLIP)


def _class_weights(codes: Tensor, count: int) -> Tensor:
    """(count,): inverse frequencies, so that rare values count as much as frequent ones."""
    return 1.0 / torch.bincount(codes, minlength=count).clamp(min=1)


def _progress_bar(reporter: Reporter) -> Progress:
    return Progress(console=reporter.console, transient=True, disable=not reporter.console.is_terminal)


def _batches(count: int, seed: int, steps: int) -> Iterator[Indices]:
    """Indices for each step: the whole set, shuffled anew in every epoch."""
    random = np.random.Generator(np.random.PCG64(seed))
    size = min(OPTIMIZER.batch_size, count)

    def forever() -> Iterator[Indices]:
        while True:
            order = random.permutation(count)
            yield from (order[at : at + size] for at in range(0, count - size + 1, size))

    return islice(forever(), steps)


def _augment(x: Tensor, generator: torch.Generator) -> Tensor:
    """Blur (video) and noise, as decoded sequences may have, of a random strength for each sequence."""
    if x.ndim == 5:
        small = _Downsample()(x.flatten(0, 1))  # as the network does, and faster to blur
        x = _blur(small.reshape(*x.shape[:3], IMAGE_SIZE, IMAGE_SIZE), MAX_BLUR * _random_strengths(x, generator))
    noise = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    return x + MAX_NOISE * _random_strengths(x, generator) * noise


def _random_strengths(x: Tensor, generator: torch.Generator) -> Tensor:
    """A number from 0 to 1 for each sequence, shaped to multiply it."""
    return torch.rand((len(x), *[1] * (x.ndim - 1)), generator=generator, device=x.device, dtype=x.dtype)


def _blur(x: Tensor, sigma: Tensor) -> Tensor:
    """Square frames (batch, time, channel, size, size) under a Gaussian of width `sigma` (batch, 1, 1, 1, 1)."""
    at = torch.arange(x.shape[-1], device=x.device, dtype=x.dtype)
    kernel = torch.exp(-0.5 * ((at[:, None] - at) / sigma.clamp(min=0.1)).square())
    kernel = kernel / kernel.sum(-1, keepdim=True)  # rows sum to 1 at the edges too: no darker border
    return kernel @ x @ kernel.mT


def _test_accuracy(classifier: Classifier, data: Sequences) -> dict[str, float]:
    """Label -> accuracy on `data`."""
    correct = dict.fromkeys(classifier.labels, 0)
    predict = classifier.predict_frames if classifier.single_frames else classifier.predict
    device = next(classifier.network.parameters()).device
    for indices in chunks(len(data), chunk_size(device, data.shape[1:])):
        for label, codes in predict(data.read(indices), data.lengths[indices]).items():
            truth = data.labels[label][indices]
            correct[label] += int((codes == (truth[:, None] if classifier.single_frames else truth)).sum())
    return {label: count / classifier.test_count for label, count in correct.items()}


def _guess_accuracy(data: Sequences) -> dict[str, float]:
    """Label -> the share of its most frequent value in `data`."""
    counts = {label: np.unique(codes, return_counts=True)[1] for label, codes in data.labels.items()}
    return {label: float(each.max() / len(data)) for label, each in counts.items()}


def load_or_train_classifier(
    everything: Sequences,
    device: str = "cpu",
    reporter: Reporter | None = None,
    single_frames: bool = False,
) -> Classifier:
    """The classifier of a set: shipped with the package, from the cache, or trained now and cached.

    Arguments as in `train_classifier`.
    """
    name = classifier_file(everything, single_frames)
    for path in (SHIPPED / name, cache_folder() / name):
        if path.exists():
            try:
                return _load(path, everything, device)
            except InputError as error:
                reporter = reporter or Reporter()
                reporter.log(f"note: the classifier of {everything.name} is trained again: {error}")
    classifier = train_classifier(everything, device=device, reporter=reporter, single_frames=single_frames)
    save_classifier(cache_folder() / name, classifier)
    return classifier


def classifier_file(everything: Sequences, single_frames: bool = False) -> str:
    """The name of the file that holds the classifier of a set; it changes with the set's content."""
    return f"{'frame-classifier' if single_frames else 'classifier'}-{_cache_key(everything)}.safetensors"


def save_classifier(path: Path, classifier: Classifier) -> None:
    """Write a classifier to a file that `load_or_train_classifier` reads."""
    fields = ("values", "accuracy", "excluded", "test_count", "single_frames")
    write_tensors(
        path, "classifier", classifier.network.state_dict(), {name: getattr(classifier, name) for name in fields}
    )


def _load(path: Path, everything: Sequences, device: str) -> Classifier:
    weights, record = read_tensors(path, "classifier")
    network = ClassifierNetwork(everything.shape[2:], [len(names) for names in record["values"].values()])
    load_weights(network, weights, path)
    test = everything.split("test")
    record |= {"units": everything.units, "chance": _guess_accuracy(test), "clip_count": test.clip_count}
    return Classifier(network.to(device).eval(), **record)


def _cache_key(everything: Sequences) -> str:
    """Of what a classifier depends on: CLASSIFIER_VERSION, and the content of the training and test splits."""
    content = sha256()
    for part in (everything.split("train"), everything.split("test")):
        some = np.unique(np.linspace(0, len(part) - 1, FINGERPRINT_CLIPS).astype(np.int64))
        middles = part.frames[part.starts[some] + part.lengths[some] // 2]
        for array in (part.lengths, *part.labels.values(), middles):
            content.update(np.ascontiguousarray(array).data)
    values = {label: _value_names(everything, label) for label in everything.labels}
    return digest(CLASSIFIER_VERSION, everything.shape, values, vars(everything.units), content.hexdigest())
