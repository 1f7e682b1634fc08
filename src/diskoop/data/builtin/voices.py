"""the synthetic speakers as a data set: spectrograms, cached, a disjoint test of 24 x 8"""

from dataclasses import replace

import numpy as np

from diskoop.data import sound
from diskoop.data.assembly import assemble
from diskoop.data.builtin import voice_synthesis as synthesis
from diskoop.data.clips import Clip, gather
from diskoop.data.labels import code
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.data.timit import CODES, PHONES
from diskoop.settings import DataSettings


def load(settings: DataSettings) -> Sequences:
    """Sixty speakers to train on and 24 to test, eight sentences each, no sentence twice."""
    gathered = gather("voices", [], _clips, [synthesis, sound], [], skip_bad=False)
    speakers = [name.split("/")[0] for name in gathered.names]
    tests = synthesis.TRAIN_SPEAKERS * synthesis.SENTENCES
    columns = {
        "speaker": speakers,
        "sex": [name[0] for name in speakers],
        "split": ["train" if at < tests else "test" for at in range(len(speakers))],
    }
    everything = assemble("voices", gathered, code(columns), Units(rate=sound.RATE), settings)
    numbers = {name: number for number, name in enumerate(gathered.names)}
    return replace(
        everything,
        notes=(),
        listen=lambda name: synthesis.utterance(numbers[name]).sound,
        tracks={"phone": np.concatenate([_phones(*clip) for clip in enumerate(gathered.lengths)])},
        values={**everything.values, "phone": PHONES},
    )


def _phones(number: int, frames: int) -> Indices:
    """(frames,) the class of each, of those that TIMIT's phones are folded to."""
    spoken = synthesis.segments(number)
    return sound.frame_codes([(start, end, CODES[phone]) for start, end, phone in spoken], frames)


def _clips() -> list[Clip]:
    return [
        Clip(
            f"{synthesis.speaker(number // synthesis.SENTENCES).name}/{number % synthesis.SENTENCES}",
            f"utterance {number}",
            lambda number=number: iter([_spectrogram(number)]),  # type: ignore[misc]
        )
        for number in range(synthesis.UTTERANCES)
    ]


def _spectrogram(number: int) -> np.ndarray:
    return sound.spectrogram(synthesis.utterance(number).sound)
