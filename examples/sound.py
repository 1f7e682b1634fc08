"""Sound: train on synthetic speakers, give one speaker's sentence the voice of another, and listen.

    python examples/sound.py            # a quarter of an hour on two cores
    python examples/sound.py --quick    # a minute, mostly for drawing the voices, and little to hear

With recordings of your own, take `diskoop.train("recordings/", ...)`: a folder for each speaker.
"""

import argparse
from pathlib import Path
from typing import Any

import diskoop
from diskoop.data.formats.audio import spectrogram_to_audio, write_wav


def main(out: Path, quick: bool = False, source: str = "voices") -> list[Path]:
    budget: dict[str, Any] = {"data": {"limit": 32}, "train": {"epochs": 1}} if quick else {}
    run = diskoop.train(source, out / "voices", preset="quick-speech", **budget)

    clips = run.data("test").select([0, len(run.data("test")) - 1])
    parts = run.decompose(clips)
    swapped = parts.swap("static", donor=[1, 0])  # who speaks is what stays; what is said goes on
    files = []
    for name, each in (("original", parts), ("swapped", swapped)):
        for number, (_, spectrogram) in enumerate(each.rows()):
            files.append(write_wav(out / f"{name}-{number}.wav", spectrogram_to_audio(spectrogram)))
    return files


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/examples"))
    parser.add_argument("--quick", action="store_true")
    print("listen to", *main(**vars(parser.parse_args())))
