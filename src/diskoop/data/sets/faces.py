"""the drawn faces as a data set: cached, split by take as the paper splits MUG"""

from diskoop.data.assembly import assemble
from diskoop.data.cache import cached_array, digest
from diskoop.data.clips import ClipFrames
from diskoop.data.labels import Labels
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.data.sets import face_art as art
from diskoop.data.sets import puppet_art
from diskoop.errors import InputError
from diskoop.settings import DataSettings

TEST_FRACTION = 0.25  # of the takes


def load(settings: DataSettings) -> Sequences:
    """All 3432 clips: eleven takes of six expressions of 52 people."""
    size = settings.size or 64
    if size not in art.SIZES:
        raise InputError(f"faces are drawn at {' or '.join(map(str, art.SIZES))} pixels, got data.size = {size}")
    labels = art.labels()
    shape = (len(labels["subject"]), art.FRAMES, 3, size, size)
    x = cached_array(f"faces-{size}", digest(art, puppet_art), shape, lambda out, advance: art.draw(size, out, advance))
    coded = Labels({name: labels[name] for name in art.FACTORS}, dict(art.FACTORS), None, ())
    by_take = settings.model_copy(update={"test_fraction": TEST_FRACTION, "group": settings.group or "none"})
    return assemble("faces", ClipFrames.of(x), coded, PIXELS, by_take)
