"""the paper's MUG faces: 15 frames a take, the face cropped with one box"""

import sys
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from diskoop.data.assembly import assemble
from diskoop.data.clips import Blocks, Clip, list_files, natural_key, read_clips
from diskoop.data.formats import videos
from diskoop.data.labels import encode_labels
from diskoop.data.sequences import PIXELS, Sequences
from diskoop.errors import InputError, MissingDependencyError, counted
from diskoop.settings import DataSettings

SOURCE = (
    "MUG is given to researchers on request (mug.ee.auth.gr/fed); data.name=faces is drawn here and takes its place"
)
EXPRESSIONS = ("anger", "disgust", "fear", "happiness", "sadness", "surprise")
FRAMES = 15  # of a take
TEST_FRACTION = 0.25  # of the takes
DETECTION_WIDTH = 320  # pixels to which frames are shrunk for detection, which takes seconds a take at full size


def load(settings: DataSettings) -> Sequences:
    """Takes of six expressions from folders subject / expression / take / numbered JPEG, whatever lies above those."""
    if settings.path is None:
        raise InputError(f"mug is read from its folder: data.path=FOLDER; {SOURCE}")
    root, size = Path(settings.path).expanduser(), settings.size or 64
    if not root.is_dir():
        raise InputError(f"there is no folder {settings.path!r} with the takes of mug; {SOURCE}")
    takes, notes = _find_takes(root)
    files = [file for images in takes.values() for file in images]

    def list_clips() -> list[Clip]:
        detect = _load_detector()
        return [_clip(folder.relative_to(root).as_posix(), images, size, detect) for folder, images in takes.items()]

    clip_frames = read_clips("mug", files, list_clips, [sys.modules[__name__], videos], [size], settings.skip_bad)
    names = [Path(name).parts for name in clip_frames.names]
    columns = {role: [name[place] for name in names] for role, place in (("subject", -3), ("expression", -2))}
    labels = encode_labels(
        {**columns, "expression": [word.lower() for word in columns["expression"]]}, always=("subject",)
    )
    # The paper splits by take, so that all subjects are in both splits.
    by_take = settings.model_copy(update={"test_fraction": TEST_FRACTION, "group": settings.group or "none"})
    return assemble("mug", clip_frames, labels, PIXELS, by_take, notes=(*notes, *clip_frames.notes, *labels.notes))


def _find_takes(root: Path) -> tuple[dict[Path, list[Path]], list[str]]:
    """Image files of each folder whose parent is one of the six expressions, and notes about other images."""
    takes: dict[Path, list[Path]] = {}
    others: Counter[str] = Counter()
    for file in list_files(root):
        if file.suffix.lower() not in (".jpg", ".jpeg"):
            continue
        above = file.relative_to(root).parts[:-1]
        if len(above) >= 3 and above[-2].lower() in EXPRESSIONS:
            takes.setdefault(file.parent, []).append(file)
        else:
            others["/".join(above[-2:-1]) or "no expression"] += 1
    if not takes:
        raise InputError(
            f"{root} holds no takes of mug, wanted folders such as 001/anger/take000 with numbered JPEG files "
            f"(expressions {', '.join(EXPRESSIONS)})"
        )
    by_number = {folder: sorted(images, key=lambda file: natural_key(file.name)) for folder, images in takes.items()}
    notes = [
        f"ignored: {counted(count, 'image')} of {what}, none of the six expressions" for what, count in others.items()
    ]
    return by_number, notes


def _clip(name: str, images: Sequence[Path], size: int, detect: "FaceDetector") -> Clip:
    notes: list[str] = []
    return Clip(name, name, lambda: _crop_face(name, images, size, detect, notes), notes=notes)


def _crop_face(name: str, images: Sequence[Path], size: int, detect: "FaceDetector", notes: list[str]) -> Blocks:
    """15 frames drawn at random, in order, cropped with one box: a box for each frame would jitter."""
    if len(images) < FRAMES:
        raise InputError(f"{name} has {len(images)} frames, wanted {FRAMES} at least")
    # The seed depends on the take alone, not on other takes nor on the folders above its subject.
    seed = int.from_bytes(sha256("/".join(Path(name).parts[-3:]).encode()).digest()[:8], "big")
    chosen = np.sort(np.random.Generator(np.random.PCG64(seed)).choice(len(images), FRAMES, replace=False))
    pictures = [videos.read_image(images[at]) for at in chosen]
    detections = [detect(picture) for picture in pictures]
    boxes = [box for box in detections if box is not None]
    if not boxes:
        raise InputError(f"{name}: no face in any of {FRAMES} frames; look at {images[chosen[0]].name}")
    if len(boxes) < FRAMES:
        missed = [images[at].name for at, box in zip(chosen, detections, strict=True) if box is None]
        notes.append(f"{name}: no face in {', '.join(missed)}, cropped where the others have it")
    x, y, side = np.median(np.array(boxes), axis=0)
    left, upper, side = round(x - side / 2), round(y - side / 2), round(side)
    box = (left, upper, left + side, upper + side)
    crops = [picture.crop(box).resize((size, size), Image.Resampling.LANCZOS) for picture in pictures]
    yield np.stack([np.moveaxis(np.asarray(crop), -1, 0) for crop in crops])


class FaceDetector:
    """The largest face in a picture as (centre x, centre y, side), or None."""

    def __init__(self, cascade: Any) -> None:
        self.cascade = cascade

    def __call__(self, picture: Image.Image) -> tuple[float, float, float] | None:
        shrink = max(1.0, picture.width / DETECTION_WIDTH)
        small = picture.convert("L").resize((round(picture.width / shrink), round(picture.height / shrink)))
        gray: NDArray[np.uint8] = np.asarray(small)
        faces = self.cascade.detectMultiScale(
            gray, scaleFactor=1.1, minNeighbors=5, minSize=(min(gray.shape) // 6,) * 2
        )
        if not len(faces):
            return None
        x, y, width, height = max(faces.tolist(), key=lambda face: face[2] * face[3])
        return (x + width / 2) * shrink, (y + height / 2) * shrink, max(width, height) * shrink


def _load_detector() -> FaceDetector:
    try:
        import cv2
    except ImportError:
        raise MissingDependencyError("finding faces needs OpenCV: pip install 'diskoop[faces]'") from None
    # OpenCV's wheels keep their cascades next to the module.
    cascade = cv2.CascadeClassifier(str(Path(cv2.__file__).parent / "data" / "haarcascade_frontalface_default.xml"))
    if cascade.empty():
        raise MissingDependencyError("this OpenCV ships no Haar cascades: pip install 'opencv-python-headless<5'")
    return FaceDetector(cascade)
