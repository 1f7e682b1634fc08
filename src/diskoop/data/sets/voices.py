"""the synthetic speakers as a data set: spectrograms, cached, a disjoint test of 24 x 8"""

from dataclasses import replace

import numpy as np

from diskoop.data.assembly import assemble
from diskoop.data.clips import Clip, read_clips
from diskoop.data.formats import audio
from diskoop.data.labels import encode_labels
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.data.sets import voice_synthesis as synthesis
from diskoop.data.sets.timit import CODES, PHONES
from diskoop.settings import DataSettings


def load(settings: DataSettings) -> Sequences:
    """Sixty speakers to train on and 24 to test, eight different sentences each."""
    clip_frames = read_clips("voices", [], _clips, [synthesis, audio], [], skip_bad=False)
    speakers = [name.split("/")[0] for name in clip_frames.names]
    train_count = synthesis.TRAIN_SPEAKERS * synthesis.SENTENCES
    columns = {
        "speaker": speakers,
        "sex": [name[0] for name in speakers],
        "split": ["train" if at < train_count else "test" for at in range(len(speakers))],
    }
    dataset = assemble(
        "voices", clip_frames, encode_labels(columns, always=("speaker",)), Units(rate=audio.RATE), settings
    )
    numbers = {name: number for number, name in enumerate(clip_frames.names)}
    return replace(
        dataset,
        notes=(),
        load_audio=lambda name: synthesis.utterance(numbers[name]).sound,
        frame_labels={"phone": np.concatenate([_phones(*clip) for clip in enumerate(clip_frames.lengths)])},
        values={**dataset.values, "phone": PHONES},
    )


def _phones(number: int, frames: int) -> Indices:
    """Phone class of each frame of an utterance, (frames,), as for TIMIT."""
    spoken = synthesis.segments(number)
    return audio.frame_codes([(start, end, CODES[phone]) for start, end, phone in spoken], frames)


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
    return audio.spectrogram(synthesis.utterance(number).sound)
