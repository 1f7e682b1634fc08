"""the drawn faces as a data set: cached, split by take as the paper splits MUG"""

from diskoop.data.assembly import assemble
from diskoop.data.builtin import face_art as art
from diskoop.data.builtin import puppet_art
from diskoop.data.cache import digest, drawn_once
from diskoop.data.clips import ClipFrames
from diskoop.data.labels import Labels
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.errors import InputError
from diskoop.settings import DataSettings

TEST = 0.25


def load(settings: DataSettings) -> Sequences:
    size = settings.size or 64
    if size not in art.SIZES:
        raise InputError(f"faces are drawn at {' or '.join(map(str, art.SIZES))} pixels, got data.size = {size}")
    labels = art.labels()
    shape = (len(labels["subject"]), art.FRAMES, 3, size, size)
    x = drawn_once(f"faces-{size}", digest(art, puppet_art), shape, lambda out, advance: art.draw(size, out, advance))
    known = Labels({name: labels[name] for name in art.FACTORS}, dict(art.FACTORS), None, ())
    choice = settings.model_copy(update={"test": TEST, "group": settings.group or "none"})
    return assemble("faces", ClipFrames.of(x), known, PIXELS, choice)
