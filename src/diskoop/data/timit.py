"""the paper's TIMIT: speakers reading sentences, from the corpus or its sample"""

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diskoop.data import sound
from diskoop.data.assembly import assemble
from diskoop.data.clips import files_below, gather
from diskoop.data.labels import code
from diskoop.data.sequences import Sequences, Units
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


class Recording(NamedTuple):
    """What a path says."""

    file: Path
    speaker: str
    dialect: str
    sentence: str
    use: str  # train, test, or nothing


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
    notes = (*gathered.notes, *labels.notes)
    everything = assemble("timit", gathered, labels, Units(rate=sound.RATE), choice, notes=notes)
    # Texts that everyone reads are known from training: they are neither validated with nor tested on.
    known = [by_name[everything.clip_name(at)].sentence.startswith("sa") for at in range(len(everything))]
    fair = everything.select(~(np.array(known) & (everything.parts != 0)))
    return replace(fair, listen=lambda name: sound.read_sound(root / name))


def _recordings(root: Path) -> list[Recording]:
    """Each sentence once, in upper or lower case: TRAIN/DR1/FCJF0/SX37.WAV, dr1-fcjf0/sx37.wav."""
    found: dict[tuple[str, str], Recording] = {}
    for file in files_below(root):
        if file.suffix.lower() not in sound.SUFFIXES:
            continue
        above = [part.lower() for part in (root.resolve() / file.relative_to(root)).parts[-4:-1]]
        sentence = file.name.lower().split(".")[0]  # some copies hold SX37.WAV and SX37.WAV.wav, the same sound
        who = SPEAKER.fullmatch(above[-1])
        if who is None or not SENTENCE.fullmatch(sentence):
            continue
        dialect = who[1] or next((part[2:] for part in above if re.fullmatch(r"dr\d", part)), "unknown")
        use = next((part for part in above if part in ("train", "test")), "")
        found.setdefault((who[2], sentence), Recording(file, who[2], dialect, sentence, use))
    if not found:
        raise InputError(
            f"{root} holds no recordings of timit, wanted TRAIN/DR1/FCJF0/SX37.WAV as in the corpus or "
            "dr1-fcjf0/sx37.wav as in its sample; other recordings are read with data.path alone, without data.name"
        )
    return list(found.values())


def _said(found: list[Recording]) -> dict[str, str]:
    """Speaker -> split, where the folders say TRAIN and TEST."""
    use = {one.speaker: one.use for one in found}
    if set(use.values()) != {"train", "test"}:
        return {}
    testing = {speaker for speaker, word in use.items() if word == "test"}
    core = testing & CORE if testing >= CORE else testing
    return {speaker: "test" if speaker in core else "val" if speaker in testing else "train" for speaker in use}
