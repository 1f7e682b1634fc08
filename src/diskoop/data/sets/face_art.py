"""drawn faces: 52 people, six expressions that unfold over 15 frames, eleven takes of each

What does not move in a person (body, skin, hair) is painted once, large and shaded; the features are painted on it
frame by frame, and the camera of a take shifts, tilts and scales the whole. Lengths are in units of a 64th of the
picture: x to the right of the face's middle, y down from the top. Outlines that move are complex numbers x + iy.
"""

import cmath
import math
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from diskoop.data.sets.puppet_art import Colour, Points, curve, flipped, knots, mix, oval

Array = NDArray[np.float64]
Path = NDArray[np.complexfloating]
Picture = NDArray[np.uint8]

SIZES = (32, 64)
FRAMES = 15
TAKES = 11
SEED = 520611
UNIT = 4  # pixels of a painting in one unit
MARGIN = 5  # units painted around the picture, for cameras that look past its edge
SIDE = UNIT * (64 + 2 * MARGIN)
SHOT = 128  # the side of what the camera sees, before it is reduced
Y, X = np.mgrid[:SIDE, :SIDE] / UNIT - np.array([MARGIN, MARGIN + 32]).reshape(2, 1, 1)
EYE = 30.5  # how far down the eyes are, in everybody


def stream(*key: int) -> np.random.Generator:
    """Keys end in a number that says what for: seeds that differ by trailing zeros give the same stream."""
    return np.random.Generator(np.random.PCG64([SEED, *key]))


def palette(codes: str) -> list[Colour]:
    """Colours written as "rrggbb rrggbb"."""
    return [(red, green, blue) for red, green, blue in map(bytes.fromhex, codes.split())]


BLACK: Colour = (24, 16, 20)
WHITE: Colour = (255, 255, 255)
SKINS = palette("f0cab2 ecc2a2 e4b48e dcaa7c cc9266 b2764e 9a6444 845640 704836")
HAIRS = palette("221c20 3e281e 603c26 86542c b28242 e2be70 be5424 7a2226 96969c dedcd8")
IRISES = palette("422a1c 684624 4a683e 3e70a8 6c7e88")
CLOTHES = palette("c63a3e 34549c f0ece2 3c8460 f0ba46 32323e 8e529e 56aabe e68054 78543e e896b0 687480")
WALLS = palette("96b2cc ceba9e 9ec0a4 cca4aa b2aace d4ceb0 7c94a0 bec8ce aa8a7a 84b2b8 deb68e")


class Style(NamedTuple):
    """A haircut, for a face 34 units wide: the right halves of outlines, written as "x,y x,y"."""

    outer: str = ""  # of what is before the face, from the crown down
    inner: str = ""  # and back up, to the hairline
    back: str = ""  # of what is behind the head
    sides: str = ""  # a closed shape on either side
    kind: str = "straight"


# fmt: off
STYLES = {
    "crop": Style("0,4 7,4.6 13,8 17,14 18.2,21 17.8,29", "16.6,29 16,22 13.6,17.4 7,15.6 0,15.4"),
    "quiff": Style("0,-1 7,0.4 13.6,5 17.4,12 18,20 17.6,27", "16.6,27 16,20 13,14.4 6,12.4 0,12.4"),
    "spikes": Style("0,0 0,0 3.4,4 6.4,-1 6.4,-1 9,4.6 13.4,1.8 13.4,1.8 14.4,8 19,7.4 19,7.4 18,14 21,17.6 21,17.6 "
                    "18.2,22 17.6,29", "16.6,29 16,22 14,18.6 11,18 11,18 8,15 5,18 5,18 2,15 0,17"),
    "bangs": Style("0,2.6 9,4 16,10 19.6,20 20.6,32 20,43 16.6,47", "15.4,44 15.8,34 16,25 14.4,19.6 7,18.2 0,18.2",
                   "0,4 14,8 19,24 19,46 8,48"),
    "long": Style("0,3.4 8,4 15.4,9.4 19.4,19 20.8,32 22,46 23,62 23,72", "16,72 15.6,54 17,40 16.6,27 13,18 6,12 0,9",
                  "0,4 15,10 20,30 21,72 4,72"),
    "waves": Style("0,2 8,2.8 16,8 20.4,17 20,23 22.8,30 21,36.6 23.6,43.6 20.6,51 17.4,54",
                   "15.6,50 17.8,43 16,37 17.6,30 16,22 10,15.6 0,14", "0,4 15,10 20,30 20,50 4,50"),
    "afro": Style("0,2 8,3.6 15,9 18.4,17 18.6,28", "16.8,28 16.2,22 13,17.4 6,15.6 0,15.6",
                  "0,-4 12,-2 21,6 25,18 23,30 17,37 4,37", kind="curly"),
    "curls": Style("0,3 8,4 15.4,10 19,19 19.6,28 19,34", "17,33 16.4,26 14.6,19 8,16.4 0,16.4",
                   "0,2 14,6 20,20 21,36 20,48 14,52 4,50", kind="curly"),
    "bun": Style("0,5.4 7,5.8 13,9 17,15 18,23 17.4,30", "16.8,30 16,22.6 12.6,16.6 6,14 0,13.4",
                 "0,-1.6 5,-1 8,3 7,7 0,8"),
    "tails": Style("0,4 8,4.6 14.6,9 18,16 18.4,24 17.6,28", "16.8,28 16,22 12,15.6 5,11.6 0,9",
                   sides="17,24 21,22 25.4,28 26.4,38 24,50 22,56 20,48 18.8,38 19,30"),
    "bald": Style(),
    "receding": Style(sides="15,13.6 18,18 19,24.4 18.2,32 16.8,33 16.4,26 16,20"),
    "beanie": Style("0,0 9,1.4 16,7.6 19,16 19.4,21", "18.6,21 10,18 0,17",
                    sides="17.4,18 19.6,26 19,36 17,38 16.6,30 16.4,22", kind="knit"),
    "scarf": Style("0,0.6 10,2.4 18,10 21.8,23 21.4,40 19,54 24,72 0,72 0,72",
                   "0,57 0,57 8,54 14,47 16.4,36 16.2,24 13.4,17 7,13.6 0,13", kind="cloth"),
}
# fmt: on
BEARDS = {"": 0.3, "full": 0.25, "goatee": 0.15, "moustache": 0.15, "stubble": 0.15}  # how often


# --- expressions: what the muscles do at the apex, and how a take unfolds it ------------------------------------------


class Muscles(NamedTuple):
    """How far each is from rest, in units or as a share; those of the upper face come first."""

    inner: float  # rise of the brows' inner ends
    outer: float  # rise of their outer ends
    knit: float  # of the brows, towards each other
    lids: float  # opening of the upper lids
    squint: float  # rise of the lower lids
    droop: float  # of the upper lids' outer ends
    wrinkle: float  # of the nose
    smile: float  # rise of the mouth's corners
    gap: float  # between the lips
    stretch: float  # of the mouth, sidewards
    sneer: float  # rise of the upper lip
    press: float  # of the lips against each other
    pout: float  # of the lower lip
    cheeks: float  # rise
    square: float  # how far an open mouth is from an oval


APEX = {
    "anger": Muscles(-3.6, 0.6, 1.9, -0.12, 0.5, 0, 0.3, -1.5, 0, -1.2, 0, 1, 0, 0, 0),
    "disgust": Muscles(-1.9, -1.3, 1, -0.4, 1, 0, 1, -1.6, 1.5, 0.2, 2.6, 0, 0.8, 0.7, 0.7),
    "fear": Muscles(3.6, 0.2, 1.3, 0.55, -0.1, 0, 0, -2.2, 4, 1.6, 0.4, 0.5, 0, 0, 1),
    "happiness": Muscles(0.5, 0.6, 0, -0.12, 0.75, 0, 0.1, 3.4, 3.4, 2.6, 0.3, 0.35, 0, 1, 0.2),
    "sadness": Muscles(3.6, -2, 1, -0.3, 0.2, 1.2, 0, -3, 0, -0.6, 0, 0, 1, 0, 0),
    "surprise": Muscles(3.4, 3.4, 0, 0.6, -0.2, 0, 0, -0.3, 6.8, -1.6, 0.3, 0, 0, 0, 0),
}
UPPER = Muscles._fields.index("wrinkle") + 1
LOWER = len(Muscles._fields) - UPPER
FACTORS: dict[str, tuple[str, ...]] = {
    "subject": tuple(f"s{number:02}" for number in range(1, 53)),
    "expression": tuple(APEX),
}
SHAPE = (*map(len, FACTORS.values()), TAKES)


def ease(x: Array) -> Array:
    x = np.clip(x, 0, 1)
    return x * x * (3 - 2 * x)


class Take:
    """Drawn alike for everybody and every expression. All are neutral in frame 0 and at their apex in frame 8."""

    def __init__(self, subject: int, expression: int, take: int) -> None:
        random = stream(subject, expression, take, 1)
        frames = np.arange(FRAMES)
        lags = np.repeat(random.uniform(0, 0.6, 2), (UPPER, LOWER))  # brows may lead the mouth, or follow it
        since = frames[:, None] - lags - random.uniform(0.4, 2.6)
        until = frames[:, None] - lags - random.uniform(8.6, 10)
        course = ease(since / random.uniform(2.6, 4.8)) * (1 - ease(until / random.uniform(2.4, 4)))
        strength = random.uniform(0.8, 1) * random.uniform(0.94, 1, UPPER + LOWER)
        self.amounts = course * strength  # (frame, muscle) shares of the apex
        blink, when = random.random() < 0.3, random.uniform(2, 12)
        self.blinks = blink * np.clip(1.3 - np.abs(frames - when), 0, 1)  # (frame,) 1 where the eyes are shut
        self.shift = complex(random.uniform(-1.1, 1.1), random.uniform(-1, 0.6))
        self.tilt = math.radians(random.uniform(-3.5, 3.5))
        self.zoom = random.uniform(0.975, 1.035)
        self.gain = random.uniform(0.93, 1.06)
        self.slopes = random.uniform(-0.05, 0.05, 2)  # of the light, across and down


# --- people -----------------------------------------------------------------------------------------------------------


class Person:
    """Styles and colours are dealt out so that people who share one differ in the others; the rest is drawn."""

    def __init__(self, subject: int) -> None:
        deal = int(stream(2).permutation(SHAPE[0])[subject])
        again, number = divmod(deal, len(STYLES))
        random = stream(subject, 3)
        name = list(STYLES)[number]
        self.style = STYLES[name]
        self.hairline = random.uniform(-1.2, 1)  # how far it is below its usual place
        self.sweep = random.uniform(-0.2, 0.2)  # how steeply it falls to one side
        self.skin = SKINS[(5 * deal + again) % len(SKINS)]
        self.hair = HAIRS[(deal + 3 * again) % len(HAIRS)]
        self.brow = mix(self.hair, BLACK, 0.35)
        if abs(sum(self.brow) - sum(self.skin)) < 130:  # it has to show
            self.brow = mix(self.hair, BLACK, 0.85)
        self.iris = IRISES[int(random.integers(len(IRISES)))]
        self.shirt = CLOTHES[7 * deal % len(CLOTHES)]
        self.hat = CLOTHES[(7 * deal + 4) % len(CLOTHES)]
        self.wall = WALLS[deal % len(WALLS)]
        beard = random.choice(list(BEARDS), p=list(BEARDS.values()))
        bearded = name in ("crop", "quiff", "spikes", "afro", "bald", "receding", "beanie")
        self.beard = str(beard) if bearded else ""
        rouge = (176, 40, 60) if not bearded and random.random() < 0.5 else (172, 84, 78)
        self.lips = mix(self.skin, rouge, random.uniform(0.45, 0.65))
        self.glasses = str(random.choice(["", "round", "square"], p=[0.7, 0.15, 0.15]))
        self.collar = str(random.choice(["round", "shirt", "high", "stripes"]))
        self.freckles = random.random() < 0.2
        self.width = random.uniform(15.4, 18.4)  # from the face's middle to its edge
        self.jaw = self.width * random.uniform(0.7, 0.93)  # the same, beside the mouth
        self.chin = random.uniform(52, 55.5)  # how far down
        self.ears = random.uniform(0.8, 1.25)  # size
        self.eyes = random.uniform(7.2, 8.8), random.uniform(0.85, 1.15), random.uniform(-0.6, 0.8)  # x, size, slant
        self.brows = random.uniform(1.1, 1.9), random.uniform(0.4, 1.5), random.uniform(23.6, 24.8)  # thick, arch, y
        self.nose = random.uniform(38, 40.4), random.uniform(2.6, 4)  # where it ends, half its width
        self.mouth = random.uniform(5.2, 6.8), random.uniform(0.8, 1.35), self.chin - 8.5  # half its width, fullness, y
        self.rest = random.uniform(-0.3, 0.5)  # rise of the mouth's corners


# --- what stays: painted once for a person, in tones that change smoothly ---------------------------------------------


def mask(*shapes: Points, alpha: float = 1, blur: float = 0) -> Image.Image:
    image = Image.new("L", (SIDE, SIDE))
    pen = ImageDraw.Draw(image)
    for shape in shapes:
        pen.polygon([(UNIT * (x + 32 + MARGIN), UNIT * (y + MARGIN)) for x, y in shape], round(255 * alpha))
    return image.filter(ImageFilter.GaussianBlur(UNIT * blur)) if blur else image


def lay(image: Image.Image, colour: Colour, shape: Image.Image, tone: Array | float = 1) -> None:
    """Paint `colour`, `tone` times as bright, where `shape` is; what is dark is warmer too, as on skin."""
    shades = np.clip(np.asarray(tone)[..., None] ** (0.9, 1.08, 1.12) * colour + 0.5, 0, 255).astype(np.uint8)
    image.alpha_composite(Image.fromarray(np.dstack([np.broadcast_to(shades, (SIDE, SIDE, 3)), np.asarray(shape)])))


def glow(x: float, y: float, wide: float, high: float) -> Array:
    return np.asarray(np.exp(-(((X - x) / wide) ** 2) - ((Y - y) / high) ** 2))


def mirrored(half: Points) -> Points:
    return half + flipped(half)[::-1]


def skin_tone(who: Person) -> Array:
    """Light from the upper left on a round face with eye sockets, cheeks, a nose and a chin."""
    across, down = X / who.width, (Y - 31) / 23
    tone = 1.07 - 0.25 * np.clip(across**2 + 0.5 * down**2, 0, 1.6) ** 1.6 - 0.09 * across - 0.05 * down
    gap, size, _ = who.eyes
    end, wide = who.nose
    for side in (-1, 1):
        tone -= 0.1 * glow(side * (gap - 1), EYE - 1, 5 * size, 3) - 0.05 * glow(side * gap * 1.05, 38, 4.4, 3.4)
    tone += 0.09 * glow(-0.5, end - 6, 1.3, 6) + 0.08 * glow(-0.4, end - 1.4, 1.8, 1.6)
    tone -= 0.1 * glow(wide * 0.8, end - 4, 1.3, 5) + 0.08 * glow(0, who.mouth[2] + 3.6, 4, 1)
    return np.asarray(np.clip(tone, 0.45, 1.25))


def hair_tone(kind: str) -> Array:
    """Strands that run down from the crown, curls, knitting or folds; and a shine."""
    angle = np.arctan2(X, Y + 4)
    weave = {
        "straight": 0.1 * np.sin(46 * angle + 2 * np.sin(9 * angle)) + 0.05 * np.sin(101 * angle),
        "curly": 0.2 * np.sin(X * 1.9 + 1.3 * np.sin(Y * 1.1)) * np.sin(Y * 1.7 + 1.3 * np.sin(X * 1.2)),
        "knit": 0.1 * np.sin(X * 2.6) + 0.14 * (Y > 14 + 0.012 * X**2),
        "cloth": 0.09 * np.sin(np.hypot(X, Y - 8) * 0.8 + 2 * angle),
    }
    return np.asarray(0.9 + 0.3 * glow(-6, 8, 9, 5) - 0.12 * np.clip(X / 20, -1, 1) + weave[kind])


def fitted(who: Person, path: str) -> Points:
    return [(x * who.width / 17, y) for x, y in knots(path)]


def tufts(kind: str, shape: Points) -> list[Points]:
    return [shape, *(oval(x, y, 1.9) for x, y in shape[::3])] if kind == "curly" else [shape]


def paint_body(who: Person) -> Image.Image:
    """The wall, the hair behind the head, neck and shirt."""
    image = Image.new("RGBA", (SIDE, SIDE))
    everywhere = knots("-40,-9 40,-9 40,80 -40,80")
    lay(image, who.wall, mask(everywhere), 1.06 - 0.16 * np.hypot(X / 32, (Y - 28) / 36) ** 2)
    if who.style.back:
        shape = curve(mirrored(fitted(who, who.style.back)))
        lay(image, who.hair, mask(*tufts(who.style.kind, shape)), 0.75 * hair_tone(who.style.kind))
    neck = 0.28 * (who.width + who.jaw)
    tone = 0.86 - 0.01 * X - 0.3 * glow(0, who.chin + 0.5, 12, 3.6)
    lay(image, who.skin, mask(mirrored([(neck, 40), (neck, 64)])), tone)
    fold = 1 - 0.14 * np.clip(X / 26, -1, 1) - 0.1 * np.clip((np.abs(X) - 14) / 16, 0, 1)
    if who.collar == "stripes":
        fold = fold * np.where(np.sin(1.7 * (Y + 0.01 * X**2)) > 0.2, 0.62, 1)
    lay(image, who.shirt, mask(curve(mirrored(knots("5,62 9,58.6 17,60 26,63 33,67 37,76 20,76")))), fold)
    lay(image, who.skin, mask(curve(mirrored([(neck, 57), (neck - 1, 61), (neck - 5, 63.4)]))), tone)
    if who.collar == "shirt":
        flap = [(neck + 0.6, 56), (neck + 4, 60), (3.6, 67), (0, 62.5), (neck - 2, 61)]
        lay(image, mix(who.shirt, WHITE if sum(who.shirt) < 420 else BLACK, 0.3), mask(flap, flipped(flap)), fold)
    elif who.collar == "high":
        band = curve(mirrored([(neck + 0.6, 57.4), (neck + 2, 64), (4, 66)]))
        lay(image, mix(who.shirt, BLACK, 0.12), mask(band), fold)
    return image


def paint_head(who: Person) -> Image.Image:
    """Ears and skin, freckles and beard."""
    image, tone, jaw = Image.new("RGBA", (SIDE, SIDE)), skin_tone(who), who.jaw
    for x in (-who.width - 0.6, who.width + 0.6):
        lay(image, who.skin, mask(oval(x, 32.5, 2.5 * who.ears, 4.2 * who.ears)), tone - 0.05)
        hollow = mask(oval(x, 32.6, 1.2 * who.ears, 2.6 * who.ears), alpha=0.6, blur=0.3)
        lay(image, mix(who.skin, BLACK, 0.45), hollow)
    skull = [(0, 8.4), (who.width * 0.6, 10.6), (who.width * 0.93, 18), (who.width, 28)]
    cheek = [(who.width * 0.97, 36), (jaw, who.chin - 8.4), (jaw * 0.62, who.chin - 2.2), (jaw * 0.22, who.chin)]
    lay(image, who.skin, mask(curve(mirrored(skull + cheek))), tone)
    if who.freckles:
        spots = stream(4).normal((0, 36.5), (5.5, 2), (34, 2)).tolist()
        lay(image, mix(who.skin, (120, 50, 20), 0.6), mask(*(oval(x, y, 0.4) for x, y in spots), alpha=0.5))
    if who.beard in ("full", "stubble"):
        top = who.nose[0] + 2
        edge = [(0, top), (6.6, top + 0.4), (jaw * 0.78, top), (who.width * 0.92, 32)]
        alpha, below = (1, 1.6) if who.beard == "full" else (0.36, 0)
        shape = curve(mirrored(edge + [(x * 1.03, y + below) for x, y in cheek]))
        lay(image, who.hair, mask(shape, alpha=alpha, blur=0.5), 0.9 * hair_tone("curly"))
    elif who.beard == "goatee":
        low = who.mouth[2] + 2.6
        patch = curve(mirrored([(1.6, low), (4.6, low + 1), (4.4, who.chin), (2, who.chin + 2)]))
        lay(image, who.hair, mask(patch, blur=0.3), hair_tone("straight"))
    return image


def paint_glasses(image: Image.Image, who: Person) -> None:
    gap, level = who.eyes[0] + 0.2, EYE + 0.6
    frame = oval(0, 0, 1) if who.glasses == "round" else curve(knots("-1,-0.8 1,-0.8 1,0 0.8,0.9 -0.8,0.9 -1,0"))
    lens, rim = ([(gap + x * wide, level + y * high) for x, y in frame] for wide, high in ((5.3, 4.7), (6.1, 5.5)))
    glass = mask(lens, flipped(lens))
    temple = [(gap + 5.8, EYE - 0.6), (who.width, EYE), (gap + 5.8, EYE + 0.6)]
    bridge = mirrored([(0, EYE - 0.5), (gap - 5.3, EYE), (gap - 5.3, EYE + 1), (0, EYE + 0.4)])
    metal = BLACK if sum(who.skin) > 400 else (222, 186, 116)  # not to be taken for brows
    lay(image, metal, ImageChops.subtract(mask(rim, flipped(rim), temple, flipped(temple), bridge), glass))
    lay(image, WHITE, mask(lens, flipped(lens), alpha=0.1))


def paint_front(who: Person) -> Image.Image:
    """What may cover features: glasses, hair and hats."""
    image, style = Image.new("RGBA", (SIDE, SIDE)), who.style
    if who.glasses:
        paint_glasses(image, who)
    if style.sides:
        shape = curve(fitted(who, style.sides))
        lay(image, who.hair, mask(shape, flipped(shape)), 0.9 * hair_tone("straight"))
    if style.outer:
        worn = style.kind in ("knit", "cloth")
        lean, outer = 0 if worn else who.sweep, fitted(who, style.outer)
        hairline = [(x, y + who.hairline + lean * x if y < 21 else y) for x, y in mirrored(fitted(who, style.inner))]
        shape = curve(outer + hairline + flipped(outer)[::-1])
        lay(image, who.hat if worn else who.hair, mask(*tufts(style.kind, shape)), hair_tone(style.kind))
    return image


class Portrait:
    """A person's layers, cut to what they cover: copying pixels is what takes the time."""

    def __init__(self, subject: int) -> None:
        self.who = person = Person(subject)
        head, front = paint_head(person), paint_front(person)
        self.left, _, right, _ = head.getbbox() or (0, 0, 1, 1)
        box = front.getbbox() or (0, 0, 1, 1)
        self.body = paint_body(person).convert("RGB")
        self.head = np.asarray(head)[:, self.left : right]
        self.front, self.corner = front.crop(box), box[:2]


portrait = lru_cache(maxsize=2)(Portrait)  # clips are drawn person by person


# --- what moves: painted in every frame -------------------------------------------------------------------------------

ACROSS = np.linspace(-1, 1, 17)
PART = (ACROSS + 1) / 2
ARC = 1 - ACROSS**2
ROUND = np.exp(1j * math.pi * ACROSS[1:])


def between(x: Array, top: Array, bottom: Array) -> Path:
    """The outline of what lies between two curves."""
    return np.concatenate([x + 1j * top, (x + 1j * bottom)[::-1]])


def ellipse(x: float, y: float, wide: float, high: float) -> Path:
    return np.asarray(x + wide * ROUND.real + 1j * (y + high * ROUND.imag))


class Brush:
    def __init__(self, image: Image.Image) -> None:
        self.pen = ImageDraw.Draw(image, "RGBA")

    def fill(self, colour: Colour, shape: Path, alpha: float = 1) -> None:
        corners = (shape + complex(32 + MARGIN, MARGIN)) * UNIT
        self.pen.polygon(corners.view(np.float64).tolist(), (*colour, round(255 * min(alpha, 1))))

    def pair(self, colour: Colour, shape: Path, alpha: float = 1) -> None:
        """On the right of the face, and mirrored on the left."""
        self.fill(colour, shape, alpha)
        self.fill(colour, -shape.conj(), alpha)

    def stroke(self, colour: Colour, path: Path, thick: Array | float, alpha: float = 1, both: bool = True) -> None:
        if alpha < 0.02:  # most creases, most of the time
            return
        slope = np.concatenate([path[1:2] - path[:1], path[2:] - path[:-2], path[-1:] - path[-2:-1]])
        half = 0.5j * thick * slope / np.abs(slope)
        (self.pair if both else self.fill)(colour, np.concatenate([path + half, (path - half)[::-1]]), alpha)


def paint_nose(brush: Brush, who: Person, m: Muscles) -> None:
    end, wide = who.nose[0] - 1.2 * m.wrinkle, who.nose[1] + 0.5 * m.wrinkle + 0.2 * m.cheeks
    dark = mix(who.skin, BLACK, 0.6)
    brush.fill(dark, between(wide * 0.9 * ACROSS, end + 0.2 + 0 * ARC, end + 0.5 + 0.7 * ARC), 0.25)
    brush.stroke(dark, wide + 0.35 * ARC - 0.3 * ACROSS + 1j * (end - 1 + 1.4 * ACROSS), 0.2 + 0.6 * ARC, 0.5)
    brush.pair(mix(who.skin, BLACK, 0.85), ellipse(wide * 0.5, end, 0.9, 0.5), 0.85)
    for i in range(3):
        crease = (2.2 + 0.3 * i) * ACROSS + 1j * (EYE - 0.6 + 1.9 * i + 0.9 * ARC)
        brush.stroke(dark, crease, 0.6 * ARC, 0.6 * m.wrinkle - 0.1, both=False)


def paint_eyes(brush: Brush, who: Person, m: Muscles, blink: float) -> None:
    gap, size, rise = who.eyes
    x, level = gap + 4.2 * size * ACROSS, EYE - rise * ACROSS
    bottom = level + 1.7 * size * ARC * (1 - 0.75 * m.squint) * (1 - 0.5 * blink)
    opening = 2.6 * size * (1 + m.lids) * (1 - blink) - 0.6 * blink
    top = np.minimum(level - opening * ARC**0.8 + m.droop * ARC * PART, bottom)
    brush.pair(mix((246, 244, 240), who.skin, 0.1), between(x, top, bottom))
    for radius, colour in ((2.15, mix(who.iris, BLACK, 0.35)), (1.75, who.iris), (0.95, BLACK)):
        ball = ellipse(gap, EYE - 0.3, radius * size, radius * size)
        shown = np.clip(ball.imag, np.interp(ball.real, x, top), np.interp(ball.real, x, bottom))
        brush.pair(colour, ball.real + 1j * shown)
    for side in (-1, 1) if blink < 0.5 else ():
        brush.fill(WHITE, ellipse(side * gap - 0.8, EYE - 1, 0.55 * size, 0.55 * size))
    dark = mix(who.skin, BLACK, 0.8)
    brush.stroke(dark, x + 1j * top, 0.45 + 0.5 * ARC)
    brush.stroke(dark, x + 1j * bottom, 0.35, 0.35)
    brush.stroke(dark, (x + 1j * (top - 1.3))[2:-2], 0.4, 0.4 * (1 - blink))
    brush.stroke(dark, (x + 1j * (bottom + 0.2 + 1.3 * ARC))[2:-2], 0.45, 0.45 * m.squint * m.cheeks)


def paint_brows(brush: Brush, who: Person, m: Muscles) -> None:
    thick, arch, height = who.brows
    x = who.eyes[0] - 4.6 - m.knit + (9.8 + 0.8 * m.knit) * PART
    y = height - m.inner * (1 - PART) ** 1.3 - m.outer * PART - arch * 4 * PART * (1 - PART)
    taper = 2 * thick * (1 - 0.7 * PART**2) * np.clip(0.6 + 3 * PART, 0, 1)
    brush.stroke(who.brow, x + 1j * y, taper)
    dark = mix(who.skin, BLACK, 0.55)
    furrow = 1.1 + 0.5 * ACROSS**2 + 1j * (height + 1.4 - 0.6 * m.inner + 2.2 * ACROSS)
    brush.stroke(dark, furrow, 0.2 + 0.6 * ARC, 0.3 * m.knit if m.inner < 0 else 0)
    for i in range(2):
        crease = 9.5 * ACROSS + 1j * (height - 3.4 - 2.2 * i - 0.8 * m.inner - 0.9 * ARC)
        brush.stroke(dark, crease, 0.1 + 0.55 * ARC, 0.08 * (m.inner + m.outer), both=False)


def paint_cheeks(brush: Brush, who: Person, m: Muscles, corner: complex) -> None:
    for ring in (1, 0.75, 0.5):
        blush = ellipse(who.eyes[0] + 2, 39 - 1.6 * m.cheeks, 4.2 * ring, 2.6 * ring)
        brush.pair(mix(who.skin, (226, 72, 72), 0.5), blush, 0.04 + 0.14 * m.cheeks)
    start = complex(who.nose[1] + 1.2, who.nose[0] - 1.4 - 1.2 * m.wrinkle)
    fold = start + (corner + 1.4 - start) * PART + 0.9 * ARC
    brush.stroke(mix(who.skin, BLACK, 0.5), fold, 0.15 + 0.8 * ARC, 0.1 + 0.4 * max(m.cheeks, 0.3 * m.sneer))


def paint_mouth(brush: Brush, who: Person, m: Muscles) -> None:
    half, full, height = who.mouth
    x, opened = (half + m.stretch) * ACROSS, min(1.0, m.gap / 3)
    bow = (1 - np.abs(ACROSS) ** (2 + 2 * m.square)) ** (1 - 0.45 * opened)
    corner = height - who.rest - m.smile + 0.42 * m.gap
    top = corner + (height - m.sneer - corner) * bow
    bottom = np.maximum(top, corner + (height - 0.5 * m.sneer * opened + m.gap - corner) * bow)
    upper = 1.5 * full * (1 - 0.6 * m.press) * ARC**0.7 * (1 - 0.25 * np.exp(-((ACROSS / 0.2) ** 2)))
    lower = (1.9 * full * (1 - 0.6 * m.press) + 0.9 * m.pout) * ARC**0.7
    paint_cheeks(brush, who, m, complex(half + m.stretch, corner))
    if who.beard in ("full", "goatee", "moustache"):
        whiskers = between(x * 1.15, top - upper - 1.9 * ARC**0.4, top - 0.2 + 0.5 * ACROSS**2)
        brush.fill(mix(who.hair, BLACK, 0.1), whiskers)
    below = 0.6 * x + 1j * (bottom + lower + 0.7)
    brush.stroke(mix(who.skin, BLACK, 0.5), below, 0.7 * ARC, 0.25 + 0.3 * m.pout, both=False)
    brush.fill(mix(who.lips, BLACK, 0.14), between(x, top - upper, top))
    brush.fill(who.lips, between(x, bottom, bottom + lower))
    brush.fill(mix(who.lips, WHITE, 0.3), between(0.5 * x, bottom + 0.3 * lower, bottom + 0.55 * lower), 0.6)
    if m.gap > 0.1:
        paint_inside(brush, m, x, top, bottom, height)
    brush.stroke(mix(who.lips, BLACK, 0.65), x + 0.5j * (top + bottom), 0.4 + 0.3 * ARC, 1 - opened, both=False)


def paint_inside(brush: Brush, m: Muscles, x: Array, top: Array, bottom: Array, height: float) -> None:
    """Throat, tongue and teeth of an open mouth."""
    brush.fill((74, 18, 28), between(x, top, bottom))
    tongue = np.clip(height + 0.74 * m.gap + 1.6 * ACROSS**2, top, bottom)
    brush.fill((196, 84, 88), between(x, tongue, bottom))
    teeth = np.minimum(top + 0.9 + 0.3 * max(m.smile, 0) + 0.3 * m.square, bottom)
    brush.fill((248, 244, 236), between(x, top, teeth))
    brush.fill((240, 234, 224), between(x, np.maximum(bottom - 0.7 * m.square, teeth), bottom))


def paint_frame(who: Person, layers: Portrait, m: Muscles, blink: float) -> Image.Image:
    rows, pivot = np.arange(SIDE), UNIT * (who.nose[0] + MARGIN)
    stretch = 1 + 0.5 * m.gap / (who.chin - who.nose[0])  # of all below the nose: the jaw drops as the mouth opens
    head = Image.fromarray(layers.head[np.minimum(rows, pivot + (rows - pivot) / stretch).astype(np.intp)])
    image = layers.body.copy()
    image.paste(head, (layers.left, 0), head)
    brush = Brush(image)
    paint_nose(brush, who, m)
    paint_mouth(brush, who, m)
    paint_eyes(brush, who, m, blink)
    paint_brows(brush, who, m)
    image.paste(layers.front, layers.corner, layers.front)
    return image


# --- clips ------------------------------------------------------------------------------------------------------------


def camera(take: Take) -> tuple[complex, complex]:
    """Where on a painting the picture's corner lies, and the step to the next pixel on the right, in its pixels."""
    pivot, turn = 32 + 36j, cmath.exp(-1j * take.tilt) / take.zoom
    return UNIT * (pivot + complex(MARGIN, MARGIN) - turn * (pivot + take.shift)), UNIT * 64 / SHOT * turn


def shoot(image: Image.Image, take: Take, size: int) -> Picture:
    """(size, size, 3): what the camera of a take sees."""
    start, step = camera(take)
    view = (step.real, -step.imag, start.real, step.imag, step.real, start.imag)
    seen = image.transform((SHOT, SHOT), Image.Transform.AFFINE, view, Image.Resampling.BILINEAR)
    return np.asarray(seen.reduce(SHOT // size))


def lit(video: Picture, take: Take) -> Picture:
    ramp = np.linspace(-1, 1, video.shape[1])
    across, down = take.slopes
    bright = take.gain * (1 + across * ramp + down * ramp[:, None])  # (row, column)
    return np.asarray(np.clip(video * bright[..., None].astype(np.float32) + 0.5, 0, 255), np.uint8)


def draw_clip(subject: int, expression: int, take: int, size: int = 64) -> Picture:
    """(15, 3, size, size)"""
    if size not in SIZES:
        raise ValueError(f"faces are drawn at {' or '.join(map(str, SIZES))} pixels, not {size}")
    layers, how = portrait(subject), Take(subject, expression, take)
    moves = how.amounts * APEX[FACTORS["expression"][expression]]

    @lru_cache  # at rest and at its apex a face stays as it is for some frames
    def frame(m: Muscles, blink: float) -> Picture:
        return shoot(paint_frame(layers.who, layers, m, blink), how, size)

    frames = [frame(Muscles(*move), blink) for move, blink in zip(moves.tolist(), how.blinks.tolist(), strict=True)]
    return lit(np.stack(frames), how).transpose(0, 3, 1, 2)


def labels() -> dict[str, NDArray[np.int64]]:
    """Subject, expression and take of every clip."""
    grid = np.indices(SHAPE).reshape(len(SHAPE), -1).astype(np.int64)
    return dict(zip((*FACTORS, "take"), grid, strict=True))


def draw(size: int, out: np.ndarray, advance: Callable[[int], None] | None = None) -> None:
    """Fill `out` (3432, 15, 3, size, size) uint8; `advance(n)` is called after every n clips drawn."""
    for index, (subject, expression, take) in enumerate(product(*map(range, SHAPE))):
        out[index] = draw_clip(subject, expression, take, size)
        if advance:
            advance(1)
