"""the paper's TIMIT: speakers reading sentences, from the corpus or its sample"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diskoop.data.assembly import assemble
from diskoop.data.clips import SKIP_HINT, decoding, list_files, read_clips
from diskoop.data.formats import audio
from diskoop.data.labels import encode_labels
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.data.splits import TRAIN
from diskoop.errors import InputError
from diskoop.settings import DataSettings

SOURCE = "TIMIT is sold by the Linguistic Data Consortium (LDC93S1); data.name=voices is made here and takes its place"
# The corpus's core test set: three speakers of each dialect, eight sentences each.
CORE = {
    *("mdab0", "mwbt0", "felc0", "mtas1", "mwew0", "fpas0", "mjmp0", "mlnt0", "fpkt0", "mlll0", "mtls0", "fjlm0"),
    *("mbpm0", "mklt0", "fnlp0", "mcmj0", "mjdh0", "fmgd0", "mgrt0", "mnjm0", "fdhc0", "mjln0", "mpam0", "fmld0"),
}
SENTENCE = re.compile(r"(sa|si|sx)\d+")
SPEAKER = re.compile(r"(?:dr(\d)-)?([fm][a-z]{3}\d)")
SEGMENT = re.compile(r"([0-9]{1,9})\s+([0-9]{1,9})\s+(\S+)")
# The customary 39 classes of TIMIT's 61 phones (Lee and Hon 1989): each class, then what else is folded into it.
FOLDING = (
    "iy, ih ix, eh, ae, aa ao, ah ax ax-h, uh, uw ux, er axr, ey, ay, oy, aw, ow, m em, n en nx, ng eng, l el, r, w, "
    "y, hh hv, f, th, s, sh zh, v, dh, z, ch, jh, p, t, k, b, d, g, dx, sil pcl tcl kcl bcl dcl gcl h# pau epi"
)
_CLASSES = [phones.split() for phones in FOLDING.split(",")]
PHONES = tuple(phones[0] for phones in _CLASSES)
CODES = {phone: at for at, phones in enumerate(_CLASSES) for phone in phones} | {"q": -1}  # no class for glottal stops


class Recording(NamedTuple):
    """One recording, by its path."""

    file: Path
    speaker: str
    dialect: str
    sentence: str
    folder_split: str  # train or test by its folders, or empty
    phones: Path | None  # its .phn file


def load(settings: DataSettings) -> Sequences:
    """Every sentence of every speaker but the two that all of them read.

    Of the whole corpus the core set tests, TRAIN trains, and the rest of TEST, which reads the core set's texts,
    validates or with `data.val_fraction=0` is left out. A part of the corpus without TEST is split by speaker.
    """
    if settings.path is None:
        raise InputError(f"timit is read from its folder: data.path=FOLDER; {SOURCE}")
    root = Path(settings.path).expanduser()
    if not root.is_dir():
        raise InputError(f"there is no folder {settings.path!r} with the recordings of timit; {SOURCE}")
    recordings = _find_recordings(root)
    splits = _speaker_splits(recordings)
    chosen = [each for each in recordings if settings.keep_sa or not each.sentence.startswith("sa")]
    if settings.val_fraction == 0:
        chosen = [each for each in chosen if splits.get(each.speaker) != "val"]
    if not chosen:
        raise InputError(f"{root} holds only the sentences that everyone reads; data.keep_sa=true keeps those")
    files = [each.file for each in chosen]
    clip_frames = read_clips("timit", files, lambda: audio.recording_clips(root, files), [audio], [], settings.skip_bad)
    by_name = {each.file.relative_to(root).as_posix(): each for each in chosen}
    readable = [by_name[name] for name in clip_frames.names]
    columns = {
        "speaker": [each.speaker for each in readable],
        "sex": [each.speaker[0] for each in readable],
        "dialect": [each.dialect for each in readable],
        "sentence": [each.sentence for each in readable],
    }
    if splits:
        columns["split"] = [splits[each.speaker] for each in readable]
    by_speaker = settings.model_copy(update={"group": settings.group or "speaker"})
    labels = encode_labels(columns, always=("speaker",))
    phones, phone_notes = _phones(readable, clip_frames.lengths, settings.skip_bad)
    notes = (*clip_frames.notes, *labels.notes, *phone_notes)
    dataset = assemble("timit", clip_frames, labels, Units(rate=audio.RATE), by_speaker, notes=notes)
    # The two sentences that all speakers read occur in training, so they neither validate nor test.
    shared = [by_name[dataset.clip_name(at)].sentence.startswith("sa") for at in range(len(dataset))]
    dataset = dataset.select(~(np.array(shared) & (dataset.split_codes != TRAIN)))
    if (phones >= 0).any():
        dataset = replace(dataset, frame_labels={"phone": phones}, values={**dataset.values, "phone": PHONES})
    return replace(dataset, load_audio=lambda name: audio.load_audio(root / name))


def is_corpus(root: Path) -> bool:
    """Whether a folder holds recordings of timit."""
    if not root.expanduser().is_dir():
        return False
    names = ((file.parent.name.lower(), file.name.lower().split(".")[0]) for file in list_files(root.expanduser()))
    return any(SPEAKER.fullmatch(speaker) and SENTENCE.fullmatch(sentence) for speaker, sentence in names)


def _find_recordings(root: Path) -> list[Recording]:
    """Each sentence once, in upper or lower case: TRAIN/DR1/FCJF0/SX37.WAV, dr1-fcjf0/sx37.wav."""
    recordings: dict[tuple[str, str], Recording] = {}
    files = list_files(root)
    phones = {(file.parent, _sentence(file)): file for file in files if file.suffix.lower() == ".phn"}
    for file in files:
        if file.suffix.lower() not in audio.SUFFIXES:
            continue
        above = [part.lower() for part in (root.resolve() / file.relative_to(root)).parts[-4:-1]]
        sentence = _sentence(file)
        speaker = SPEAKER.fullmatch(above[-1])
        if speaker is None or not SENTENCE.fullmatch(sentence):
            continue
        dialect = speaker[1] or next((part[2:] for part in above if re.fullmatch(r"dr\d", part)), "unknown")
        folder_split = next((part for part in above if part in ("train", "test")), "")
        recording = Recording(file, speaker[2], dialect, sentence, folder_split, phones.get((file.parent, sentence)))
        recordings.setdefault((speaker[2], sentence), recording)
    if not recordings:
        raise InputError(
            f"{root} holds no recordings of timit, wanted TRAIN/DR1/FCJF0/SX37.WAV as in the corpus or "
            "dr1-fcjf0/sx37.wav as in its sample; other recordings are read with data.path alone, without data.name"
        )
    return list(recordings.values())


def _sentence(file: Path) -> str:
    return file.name.lower().split(".")[0]  # some copies hold SX37.WAV and SX37.WAV.wav, the same recording


def _phones(recordings: Sequence[Recording], lengths: Indices, skip_bad: bool) -> tuple[Indices, list[str]]:
    """Phone class of each frame of the recordings, (total,), and notes about files that cannot be read."""
    codes, notes = [], []
    for recording, length in zip(recordings, lengths, strict=True):
        try:
            segments = [] if recording.phones is None else _segments(recording.phones)
        except InputError as error:
            if not skip_bad:
                raise InputError(f"{error} ({SKIP_HINT})") from None
            notes.append(f"left out: {error}")
            segments = []
        codes.append(audio.frame_codes(segments, length))
    return np.concatenate(codes), notes


def _segments(file: Path) -> list[tuple[int, int, int]]:
    """(begin, end, phone class) of each line of a .phn file, in samples."""
    with decoding(file, "list of phones"):
        lines = file.read_text(encoding="utf-8", errors="replace").rstrip().split("\n")
    segments = []
    for number, line in enumerate(lines, 1):
        match = SEGMENT.fullmatch(line.strip())
        if match is None or int(match[1]) > int(match[2]) or match[3] not in CODES:
            raise InputError(
                f"{file}, line {number}: expected where a phone of timit begins and ends, and its name, such as "
                f"'0 2400 h#', got {line[:40]!r}; mend it"
            )
        segments.append((int(match[1]), int(match[2]), CODES[match[3]]))
    return segments


def _speaker_splits(recordings: list[Recording]) -> dict[str, str]:
    """Speaker -> split, where there are folders TRAIN and TEST; else empty."""
    folder_splits = {each.speaker: each.folder_split for each in recordings}
    if set(folder_splits.values()) != {"train", "test"}:
        return {}
    testing = {speaker for speaker, split in folder_splits.items() if split == "test"}
    core = testing & CORE if testing >= CORE else testing
    return {name: "test" if name in core else "val" if name in testing else "train" for name in folder_splits}
