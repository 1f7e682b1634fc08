"""the paper's TIMIT: speakers reading sentences, from the corpus or its sample"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diskoop.data import sound
from diskoop.data.assembly import assemble
from diskoop.data.clips import SKIP, decoding, files_below, gather
from diskoop.data.labels import code
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.errors import InputError
from diskoop.settings import DataSettings

SOURCE = "TIMIT is sold by the Linguistic Data Consortium (LDC93S1); data.name=voices is made here and takes its place"
# Three speakers of each dialect, eight sentences each: the corpus's own core test set.
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
    """What a path says."""

    file: Path
    speaker: str
    dialect: str
    sentence: str
    use: str  # train, test, or nothing
    phones: Path | None  # the .phn beside it


def load(settings: DataSettings) -> Sequences:
    """Every sentence of every speaker but the two that all of them read.

    Of the whole corpus the core set tests, TRAIN trains and the rest of TEST, who read the core's texts, validates or
    with `data.holdout=0` is left out. A part of the corpus without TEST is split by speaker.
    """
    if settings.path is None:
        raise InputError(f"timit is read from its folder: data.path=FOLDER; {SOURCE}")
    root = Path(settings.path).expanduser()
    if not root.is_dir():
        raise InputError(f"there is no folder {settings.path!r} with the recordings of timit; {SOURCE}")
    found = _recordings(root)
    said = _said(found)
    chosen = [one for one in found if settings.sa or not one.sentence.startswith("sa")]
    if settings.holdout == 0:
        chosen = [one for one in chosen if said.get(one.speaker) != "val"]
    if not chosen:
        raise InputError(f"{root} holds only the sentences that everyone reads; data.sa=true keeps those")
    files = [one.file for one in chosen]
    gathered = gather("timit", files, lambda: sound.recording_clips(root, files), [sound], [], settings.skip_bad)
    by_name = {one.file.relative_to(root).as_posix(): one for one in chosen}
    there = [by_name[name] for name in gathered.names]
    columns = {
        "speaker": [one.speaker for one in there],
        "sex": [one.speaker[0] for one in there],
        "dialect": [one.dialect for one in there],
        "sentence": [one.sentence for one in there],
    }
    if said:
        columns["split"] = [said[one.speaker] for one in there]
    choice = settings.model_copy(update={"group": settings.group or "speaker"})
    labels = code(columns, always=("speaker",))
    phones, unread = _phones(there, gathered.lengths, settings.skip_bad)
    notes = (*gathered.notes, *labels.notes, *unread)
    everything = assemble("timit", gathered, labels, Units(rate=sound.RATE), choice, notes=notes)
    # Texts that everyone reads are known from training: they are neither validated with nor tested on.
    known = [by_name[everything.clip_name(at)].sentence.startswith("sa") for at in range(len(everything))]
    fair = everything.select(~(np.array(known) & (everything.parts != 0)))
    if (phones >= 0).any():
        fair = replace(fair, tracks={"phone": phones}, values={**fair.values, "phone": PHONES})
    return replace(fair, listen=lambda name: sound.load_audio(root / name))


def is_corpus(root: Path) -> bool:
    """Whether a folder holds recordings of timit."""
    if not root.expanduser().is_dir():
        return False
    names = ((file.parent.name.lower(), file.name.lower().split(".")[0]) for file in files_below(root.expanduser()))
    return any(SPEAKER.fullmatch(speaker) and SENTENCE.fullmatch(sentence) for speaker, sentence in names)


def _recordings(root: Path) -> list[Recording]:
    """Each sentence once, in upper or lower case: TRAIN/DR1/FCJF0/SX37.WAV, dr1-fcjf0/sx37.wav."""
    found: dict[tuple[str, str], Recording] = {}
    files = files_below(root)
    phones = {(file.parent, _sentence(file)): file for file in files if file.suffix.lower() == ".phn"}
    for file in files:
        if file.suffix.lower() not in sound.SUFFIXES:
            continue
        above = [part.lower() for part in (root.resolve() / file.relative_to(root)).parts[-4:-1]]
        sentence = _sentence(file)
        who = SPEAKER.fullmatch(above[-1])
        if who is None or not SENTENCE.fullmatch(sentence):
            continue
        dialect = who[1] or next((part[2:] for part in above if re.fullmatch(r"dr\d", part)), "unknown")
        use = next((part for part in above if part in ("train", "test")), "")
        beside = phones.get((file.parent, sentence))
        found.setdefault((who[2], sentence), Recording(file, who[2], dialect, sentence, use, beside))
    if not found:
        raise InputError(
            f"{root} holds no recordings of timit, wanted TRAIN/DR1/FCJF0/SX37.WAV as in the corpus or "
            "dr1-fcjf0/sx37.wav as in its sample; other recordings are read with data.path alone, without data.name"
        )
    return list(found.values())


def _sentence(file: Path) -> str:
    return file.name.lower().split(".")[0]  # some copies hold SX37.WAV and SX37.WAV.wav, the same sound


def _phones(there: Sequence[Recording], lengths: Indices, skip_bad: bool) -> tuple[Indices, list[str]]:
    """(total,) the class of each frame of these recordings, end to end; and notes about what cannot be read."""
    codes, notes = [], []
    for one, length in zip(there, lengths, strict=True):
        try:
            segments = [] if one.phones is None else _segments(one.phones)
        except InputError as error:
            if not skip_bad:
                raise InputError(f"{error} ({SKIP})") from None
            notes.append(f"left out: {error}")
            segments = []
        codes.append(sound.frame_codes(segments, length))
    return np.concatenate(codes), notes


def _segments(file: Path) -> list[tuple[int, int, int]]:
    """The lines `begin end phone` of a .phn file, in samples, the phone as its class."""
    with decoding(file, "list of phones"):
        lines = file.read_text(encoding="utf-8", errors="replace").rstrip().split("\n")
    segments = []
    for number, line in enumerate(lines, 1):
        said = SEGMENT.fullmatch(line.strip())
        if said is None or int(said[1]) > int(said[2]) or said[3] not in CODES:
            raise InputError(
                f"{file}, line {number}: expected where a phone of timit begins and ends, and its name, such as "
                f"'0 2400 h#', got {line[:40]!r}; mend it"
            )
        segments.append((int(said[1]), int(said[2]), CODES[said[3]]))
    return segments


def _said(found: list[Recording]) -> dict[str, str]:
    """Speaker -> split, where the folders say TRAIN and TEST."""
    use = {one.speaker: one.use for one in found}
    if set(use.values()) != {"train", "test"}:
        return {}
    testing = {speaker for speaker, word in use.items() if word == "test"}
    core = testing & CORE if testing >= CORE else testing
    return {speaker: "test" if speaker in core else "val" if speaker in testing else "train" for speaker in use}
