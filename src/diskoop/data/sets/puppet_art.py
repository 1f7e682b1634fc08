"""drawn characters: skin, pants, top, hair (six each), three actions in three directions

Every layer depends on the value of at most one factor and on the pose. It is drawn once, large, and shrunk; numpy then
stacks the layers of all 1296 characters at once. Lengths are in units of a 64th of the picture, y pointing down.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
Point = tuple[float, float]
Points = list[Point]
Array = NDArray[np.float32]

FRAMES = 8
SIZES = (32, 64)
CANVAS = 256  # the side of the drawings before they are shrunk
UNIT = CANVAS / 64
NIGHT: Colour = (26, 28, 44)
INK: Colour = (34, 26, 58)
WHITE: Colour = (255, 255, 255)

Skin = tuple[Colour, Colour]  # colour, blush
Pants = tuple[Colour, str]  # colour, cut
Top = tuple[Colour, Colour, str]  # colour, trim, motif
SKINS: dict[str, Skin] = {
    "porcelain": ((255, 228, 212), (255, 158, 158)),
    "honey": ((242, 176, 98), (240, 118, 88)),
    "chestnut": ((180, 104, 60), (222, 96, 76)),
    "cocoa": ((86, 48, 52), (158, 64, 74)),
    "mint": ((122, 216, 142), (232, 156, 132)),
    "lilac": ((170, 134, 240), (222, 112, 208)),
}
PANTS: dict[str, Pants] = {
    "blue jeans": ((66, 112, 214), "straight"),
    "orange shorts": ((244, 140, 60), "short"),
    "cream flares": ((246, 236, 206), "flared"),
    "green sarouel": ((84, 176, 82), "baggy"),
    "rose skirt": ((240, 92, 142), "skirt"),
    "violet gown": ((124, 74, 170), "gown"),
}
TOPS: dict[str, Top] = {
    "sailor stripes": ((246, 246, 250), (58, 86, 170), "stripes"),
    "red star": ((222, 62, 76), (255, 214, 92), "star"),
    "sunny band": ((255, 206, 82), (240, 126, 60), "band"),
    "mint collar": ((66, 190, 160), (250, 250, 240), "collar"),
    "navy buttons": ((62, 74, 158), (255, 214, 92), "buttons"),
    "plum heart": ((172, 92, 204), (255, 190, 220), "heart"),
}
HAIRS: dict[str, tuple[Colour, Colour]] = {  # colour, pins and ribbons
    "blue bob": ((74, 96, 206), (255, 214, 92)),
    "pink tails": ((255, 134, 182), (120, 226, 222)),
    "golden spikes": ((255, 208, 70), (240, 126, 60)),
    "silver long": ((222, 232, 244), (176, 110, 214)),
    "crimson bun": ((206, 50, 58), (255, 236, 200)),
    "teal curls": ((36, 164, 156), (255, 150, 170)),
}
VERBS = ("walk", "cheer", "slash")
DIRECTIONS = ("front", "left", "right")
FACTORS: dict[str, tuple[str, ...]] = {
    "skin": tuple(SKINS),
    "pants": tuple(PANTS),
    "top": tuple(TOPS),
    "hair": tuple(HAIRS),
    "action": tuple(f"{verb} {direction}" for verb in VERBS for direction in DIRECTIONS),
}
SHAPE = tuple(len(values) for values in FACTORS.values())


# --- poses: where the limbs are at a phase of an action ---------------------------------------------------------------


@dataclass(frozen=True)
class Pose:
    """A limb's angle is 0 hanging down and grows outwards (front) or forwards (profile, which looks to the right)."""

    profile: bool
    feet: tuple[Point, Point]  # beside the middle, above the ground; the second foot and arm are the nearer in profile
    arms: tuple[float, float]  # degrees; the second holds the sword
    reach: tuple[float, float] = (10, 10)
    lift: float = 0
    lean: float = 0
    tilt: float = 0  # of the head, in degrees
    sway: float = 0  # of the hair behind it, in degrees
    joy: float = 0  # how far the sparkles are out
    sword: float | None = None  # degrees between it and its arm
    trail: float = 0  # degrees of the arc the sword leaves in the air


def walk(phase: float, profile: bool) -> Pose:
    swing, rise = math.sin(math.tau * phase), math.cos(math.tau * phase)
    if profile:
        feet = (-6 * swing, 3.2 * max(0.0, -rise)), (6 * swing, 3.2 * max(0.0, rise))
        return Pose(True, feet, (42 * swing, -42 * swing), lift=1.3 * abs(rise), tilt=2 * rise, sway=6 * swing)
    feet = (-3.6, 4.4 * max(0.0, swing)), (3.6, 4.4 * max(0.0, -swing))
    arms, reach = (26 - 22 * swing, 26 + 22 * swing), (9.5 + 1.5 * swing, 9.5 - 1.5 * swing)
    return Pose(False, feet, arms, reach, lift=1.3 * abs(swing), lean=1.2 * swing, tilt=4 * swing, sway=6 * rise)


def cheer(phase: float, profile: bool) -> Pose:
    joy, sway = (1 - math.cos(math.tau * phase)) / 2, 5 * math.sin(math.tau * phase)
    hop = 5 * joy**2
    if profile:
        feet = (-2.4 - 1.5 * joy, 0.0), (2.4 - 1.5 * joy, 1.5 * joy)
        return Pose(True, feet, (34 + 76 * joy, 8 + 80 * joy), (14, 13.5), hop, -2.5 * joy, -7 * joy, sway, joy)
    feet = (-3.6 - joy, 0.0), (3.6 + joy, 0.0)
    return Pose(False, feet, (18 + 112 * joy, 18 + 112 * joy), (11.5, 11.5), hop, sway=sway, joy=joy)


def slash(phase: float, profile: bool) -> Pose:
    turn = math.pi * phase * FRAMES / (FRAMES - 1)
    done, speed = (1 - math.cos(turn)) / 2, math.sin(turn)
    if profile:
        feet = (-3 - 2 * done, 0.0), (2 + 4 * done, 1.5 * speed)
        arms = -10 - 35 * done, 112 - 90 * done
        return Pose(True, feet, arms, (10, 11), 0, 3 * done - 1, 7 * done - 4, 6 * speed, 0, 42, 60 * speed)
    feet = (-3.6 - 0.8 * done, 0.0), (3.6 + 1.6 * done, 1.5 * speed)
    arms = 50 - 30 * done, 132 - 108 * done
    return Pose(False, feet, arms, (10, 11), 0, 2.4 * done - 1.2, 8 * done - 4, -6 * speed, 0, 36, 60 * speed)


# --- shapes, and the pen that draws them ------------------------------------------------------------------------------


def knots(path: str) -> Points:
    """Points written as "x,y x,y"."""
    return [(float(x), float(y)) for x, y in (knot.split(",") for knot in path.split())]


def flipped(points: Points) -> Points:
    return [(-x, y) for x, y in points]


def both(half: str) -> Points:
    """The right half of a symmetric outline, completed by the left."""
    return knots(half) + flipped(knots(half))[::-1]


def oval(x: float, y: float, across: float, down: float | None = None) -> Points:
    turns = [math.tau * i / 28 for i in range(28)]
    return [(x + across * math.cos(turn), y + (down or across) * math.sin(turn)) for turn in turns]


def balls(path: str, *radii: float) -> list[Points]:
    return [oval(x, y, radius) for (x, y), radius in zip(knots(path), radii, strict=True)]


def limb(start: Point, end: Point, thick: float, thin: float) -> Points:
    """A tapered stick with round ends."""
    heading = math.atan2(end[1] - start[1], end[0] - start[0])
    ends = (start, thick, heading + math.pi / 2), (end, thin, heading - math.pi / 2)
    arcs = [(x, y, radius, turn + math.pi * i / 9) for (x, y), radius, turn in ends for i in range(10)]
    return [(x + radius * math.cos(turn), y + radius * math.sin(turn)) for x, y, radius, turn in arcs]


def star(x: float, y: float, radius: float, tips: int, waist: float) -> Points:
    rays = [(math.pi * (i / tips - 0.5), radius * (waist if i % 2 else 1)) for i in range(2 * tips)]
    return [(x + ray * math.cos(turn), y + ray * math.sin(turn)) for turn, ray in rays]


def curve(points: Points) -> Points:
    """A closed Catmull-Rom spline; a knot written twice makes a sharp corner."""
    p1 = np.array(points)
    p0, p2, p3 = np.roll(p1, 1, 0), np.roll(p1, -1, 0), np.roll(p1, -2, 0)
    s = np.linspace(0, 1, 6, endpoint=False)[:, None, None]
    path = p1 + s / 2 * (p2 - p0 + s * (2 * p0 - 5 * p1 + 4 * p2 - p3 + s * (3 * p1 - p0 - 3 * p2 + p3)))
    return [(float(x), float(y)) for x, y in path.transpose(1, 0, 2).reshape(-1, 2)]


def strand(path: str) -> Points:
    """A thin line, as the outline of a narrow shape."""
    line = knots(path)
    return curve([*line, *((x + 0.5, y + 0.35) for x, y in reversed(line))])


def mix(colour: Colour, other: Colour, amount: float) -> Colour:
    red, green, blue = (round(a + (b - a) * amount) for a, b in zip(colour, other, strict=True))
    return red, green, blue


@dataclass(frozen=True)
class Pen:
    """RandomTensors in shifted and turned coordinates on a shared canvas."""

    canvas: ImageDraw.ImageDraw
    x: float = 32
    y: float = 0
    angle: float = 0

    def at(self, x: float, y: float, angle: float = 0) -> "Pen":
        return replace(self, x=self.x + x, y=self.y + y, angle=angle)

    def place(self, points: Points) -> Points:
        cos, sin = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        turned = [(self.x + x * cos - y * sin, self.y + x * sin + y * cos) for x, y in points]
        return [(round(x * UNIT, 2), round(y * UNIT, 2)) for x, y in turned]

    def fill(self, colour: Colour, *shapes: Points, alpha: int = 255) -> None:
        for shape in shapes:
            self.canvas.polygon(self.place(shape), (*colour, alpha))

    def draw(self, colour: Colour, *shapes: Points) -> None:
        """Shapes melting into one, with one outline in a darker tone of the same colour."""
        for shape in shapes:
            ring = self.place(shape)
            self.canvas.line([*ring, *ring[:2]], (*mix(colour, INK, 0.62), 255), width=7)
        self.fill(colour, *shapes)


# --- the body: each function paints one layer, which belongs to one factor or to none ---------------------------------


def along_arm(pose: Pose, side: int, part: float) -> Point:
    """The point at a part of an arm's length: 0 the shoulder, 1 the hand."""
    outwards = -1 if side == 0 and not pose.profile else 1
    shoulder = (1.5, -0.5)[side] if pose.profile else 6.2 * outwards
    turn, length = math.radians(pose.arms[side]), pose.reach[side] * part
    return shoulder + pose.lean / 2 + outwards * length * math.sin(turn), 41 - pose.lift + length * math.cos(turn)


def sides(pose: Pose, near: bool) -> tuple[int, ...]:
    """The arms before the body, or those behind it."""
    if pose.profile:
        return (1,) if near else (0,)
    return (0, 1) if near else ()


def legs(pose: Pose) -> Iterator[tuple[Point, Point]]:
    """Hip and ankle of either leg."""
    for (x, up), hip in zip(pose.feet, (0.8, -0.8) if pose.profile else (-3.2, 3.2), strict=True):
        yield (hip, 49 - pose.lift), (x, 58 - up - pose.lift)


def at_head(pen: Pen, pose: Pose, sway: float = 0) -> Pen:
    return pen.at(pose.lean, 27 - pose.lift, pose.tilt + sway)


def paint_hands(pen: Pen, pose: Pose, skin: Skin, near: bool) -> None:
    for side in sides(pose, near):
        wrist = along_arm(pose, side, 1)
        pen.draw(skin[0], limb(along_arm(pose, side, 0.5), wrist, 2, 2), oval(*wrist, 2.6))


def paint_sleeves(pen: Pen, pose: Pose, top: Top, near: bool) -> None:
    for side in sides(pose, near):
        pen.draw(top[0], limb(along_arm(pose, side, 0.1), along_arm(pose, side, 0.6), 2.6, 3))


def paint_legs(pen: Pen, pose: Pose, skin: Skin) -> None:
    for hip, ankle in legs(pose):
        pen.draw(skin[0], limb(hip, ankle, 2.6, 2.2))


def paint_shoes(pen: Pen, pose: Pose, _: None) -> None:
    for _hip, (x, y) in legs(pose):
        toe = 1.3 if pose.profile else math.copysign(0.25, x)
        pen.draw((158, 98, 78), oval(x + toe, y + 1, 3.8 if pose.profile else 3.2, 2.2))


def paint_pants(pen: Pen, pose: Pose, pants: Pants) -> None:
    colour, cut = pants
    slim = 0.84 if pose.profile else 1
    if cut in ("skirt", "gown"):
        wide, hem = (9.4 + 1.2 * pose.joy, 7) if cut == "skirt" else (8.8 + 1.2 * pose.joy, 10.2)
        wide, swing = wide * slim, sum(x for x, _ in pose.feet) / 2
        pen = pen.at(0, 46.5 - pose.lift)
        waist = 6.2 * slim
        pen.draw(colour, [(-waist, 0), (waist, 0), (swing + wide, hem), (swing, hem + 1.2), (swing - wide, hem)])
        folds = [limb((3 * i, 3), (swing + wide * i, hem), 0.2, 0.5) for i in (-0.45, 0, 0.45)]
        pen.fill(mix(colour, INK, 0.3), *folds)
        return
    cuts = {"straight": (0.8, 3.3, 3.0), "short": (0.42, 3.6, 3.9), "flared": (0.86, 2.9, 3.9), "baggy": (0.66, 4, 4.3)}
    part, thick, thin = cuts[cut]
    far, near = (
        limb((hip, top), (hip + (x - hip) * part, top + (y - top) * part), thick, thin)
        for (hip, top), (x, y) in legs(pose)
    )
    hips = oval(0, 48.2 - pose.lift, 6.6 * slim, 3.4)
    if pose.profile:
        pen.draw(mix(colour, INK, 0.25), far)
        pen.draw(colour, hips, near)
    else:
        pen.draw(colour, hips, far, near)
        pen.fill(mix(colour, INK, 0.5), limb((0, 51 - pose.lift), (0, 54 - pose.lift), 0.4, 0.4))


def paint_torso(pen: Pen, pose: Pose, top: Top) -> None:
    colour, trim, motif = top
    slim, front = (0.8, 2) if pose.profile else (1, 0)
    pen = pen.at(pose.lean / 2, 43 - pose.lift, pose.lean)
    pen.draw(colour, curve([(x * slim, y) for x, y in both("5.2,-5 6.4,0 7,5 3,5.6")]))
    edge = 6.4 * slim
    motifs = {
        "stripes": [limb((-edge, y), (edge, y), 0.75, 0.75) for y in (-0.4, 2.8)],
        "star": [star(0, 1.2, 3.6, 5, 0.45)],
        "band": [limb((-edge, 2.6), (edge, 2.6), 1.5, 1.5)],
        "collar": [both("5,-5 3.6,-1 0,-3")],
        "buttons": [oval(0, -0.6, 1.1), oval(0, 3, 1.1)],
        "heart": [oval(-1.3, 0.2, 1.6), oval(1.3, 0.2, 1.6), both("2.8,0.8 0,4")],
    }
    around = motif in ("stripes", "band")
    pen.fill(trim, *([(x + (0 if around else front), y) for x, y in shape] for shape in motifs[motif]))


def paint_head(pen: Pen, pose: Pose, skin: Skin) -> None:
    colour, blush = skin
    pen, skull = at_head(pen, pose), oval(0, 0, 12.6, 11.6)
    if pose.profile:
        pen.draw(colour, skull, oval(5, 5, 7.6, 6.2), oval(12.8, 4.6, 1.5, 1.2))
        pen.draw(colour, oval(-2.4, 4.2, 1.9, 2.3))
        pen.fill(blush, oval(4.4, 7.2, 2.3, 1.5))
    else:
        pen.draw(colour, skull, oval(-12.6, 2.6, 2, 2.4), oval(12.6, 2.6, 2, 2.4))
        pen.fill(blush, oval(-8.6, 7, 2.3, 1.5), oval(8.6, 7, 2.3, 1.5))


def paint_face(pen: Pen, pose: Pose, _: None) -> None:
    pen = at_head(pen, pose)
    slim, middle = (0.8, 9.2) if pose.profile else (1, 0)
    for x in (8.2,) if pose.profile else (-5.4, 5.4):
        pen.fill(WHITE, oval(x, 3, 3.2 * slim, 3.8))
        pen.fill(INK, oval(x, 2.6, 2.8 * slim, 3.9))
        pen.fill((88, 76, 172), oval(x, 5, 1.6 * slim, 1))
        pen.fill(WHITE, oval(x - 0.7 * slim, 1.1, 1.3 * slim, 1.4))
    wide, deep = slim * (1 + 0.5 * pose.joy), 1 + 1.4 * pose.joy
    pen.fill((176, 44, 72), [(middle + x * wide, 7.4 + y * deep) for x, y in both("1.7,0 1.1,1 0,1.5")])


def paint_sword(pen: Pen, pose: Pose, _: None) -> None:
    if pose.sword is None:
        return
    pen = pen.at(*along_arm(pose, 1, 1), -pose.arms[1] - pose.sword)  # its y axis runs along the blade
    pen.draw((214, 158, 92), both("1.6,1 1.6,13 0,16"))
    pen.fill((246, 206, 140), knots("-1.1,3 0,3 0,14 -1.1,12.6"))
    pen.draw((150, 92, 58), limb((-3, 2.6), (3, 2.6), 0.9, 0.9), limb((0, -2.6), (0, 2), 1, 1))


def paint_magic(pen: Pen, pose: Pose, _: None) -> None:
    """The arc of light the sword leaves, or the sparkles of joy."""
    arc = pen.at(*along_arm(pose, 1, 0))
    for part, alpha in ((1, 70), (0.66, 120), (0.33, 180)) if pose.trail > 1 else ():
        turns = [math.radians(pose.arms[1] + 22 + pose.trail * part * i / 12) for i in range(13)]
        outer = [(25.5 * math.sin(turn), 25.5 * math.cos(turn)) for turn in turns]
        inner = [(x * (0.67 + i / 39), y * (0.67 + i / 39)) for i, (x, y) in enumerate(outer)]
        arc.fill((190, 226, 255), outer + inner[::-1], alpha=alpha)
    spots = "22,-4 27,5 17,-16" if pose.profile else "22,-6 -22,-6 17,-18 -17,-18"
    sky = pen.at(0, 30 - pose.lift)
    for i, (x, y) in enumerate(knots(spots) if pose.joy > 0.1 else ()):
        radius = (4.6 if i < len(spots.split()) / 2 else 3.4) * pose.joy
        sky.fill((255, 236, 150), star(x, y, radius, 4, 0.36))
        sky.fill(WHITE, star(x, y, radius / 2, 4, 0.4))


# --- hair: six styles, from the front and in profile ------------------------------------------------------------------


@dataclass(frozen=True)
class Hair:
    back: list[Points]  # behind the body
    fringe: list[Points]  # over the head
    strands: list[Points]
    pins: list[Points]


TAIL = curve(knots("12,-7 18,-9 23,-2 22.6,7 18.6,15.4 18.6,15.4 17.4,7 15,1"))
LOCK = strand("12.4,2 13.2,6 12.6,10")
# fmt: off
FRONT_HAIR = {
    "blue bob": Hair(
        [curve(both("0,-13 11,-10 15.4,0 15.6,8 13,12 6,11"))],
        [curve(both("0,-14 9,-11.6 14,-4 15,4 13.6,10.4 11.4,9 11.2,2 9.8,-3 4,-2.4"))],
        [strand("-3,-7 -4,-5 -4,-2.8"), strand("3,-7 4,-5 4,-2.8"), LOCK, flipped(LOCK)],
        [star(9, -5, 2.8, 5, 0.5)]),
    "pink tails": Hair(
        [TAIL, flipped(TAIL)],
        [curve(both("0,-13.6 9,-11.4 13.8,-4 13,4.6 13,4.6 10.8,-1 5,-4.6 0,-8.6 0,-8.6"))],
        [strand("0,-13 0.4,-11 0,-8.6"), strand("-7,-8 -10,-5 -11.4,-1"), strand("7,-8 10,-5 11.4,-1")],
        [oval(-13.8, -6, 1.8, 2.6), oval(13.8, -6, 1.8, 2.6)]),
    "golden spikes": Hair(
        [both("0,-21 4.6,-14 12,-19.6 11.4,-12 19.6,-13 15,-5.4 20.4,-2 14.6,2 17,8.4 10,7")],
        [knots("-13.8,3 -13.6,-5 -8,-12 0,-14 8,-12 13.6,-5 13.8,3 11,-3.4 8.6,-0.2 5.4,-5 2,-0.2 -1.6,-5 -5.4,-0.4 "
               "-8,-5 -11.2,-0.2 -11.8,-2.4")],
        [strand("-2,-9 -3,-7 -5,-5.4"), strand("5,-9.6 5.4,-8 5.2,-5")],
        []),
    "silver long": Hair(
        [curve(both("0,-13 11,-10 15.2,0 16,8 17.6,14.6 17.6,14.6 13,15.2 6,13.4"))],
        [curve(both("0,-14 9,-11.6 14,-4 15.6,6 14.4,13.6 14.4,13.6 12,8.6 11.2,1 7,-4.8 0,-9.4 0,-9.4"))],
        [strand("0,-13 0.4,-11 0,-9.4"), strand("-9,-7 -12,-1 -13,7"), strand("9,-7 12,-1 13,7")],
        balls("10,-8 12.4,-5.6 9.2,-5 11.4,-9", 1.5, 1.5, 1.5, 1.5)),
    "crimson bun": Hair(
        [oval(0, -16, 6.4, 5.6)],
        [curve(knots("-13.4,5.6 -13.4,5.6 -14,-3 -9,-11.6 0,-14 9,-11.6 14,-3 13.4,5.6 13.4,5.6 11.4,-1 8,-5.4 5,-7.4 "
                     "-1,-3.4 -8,-1.2 -11,0"))],
        [strand("5,-7.4 6.4,-9.6 6,-11.8"), strand("1,-6.6 -3,-4.8 -8,-3.6")],
        [both("0,-13.4 4.4,-15.6 4.4,-11 0,-12.8")]),
    "teal curls": Hair(
        balls("-13,-6 -14,1 -13,8 13,-6 14,1 13,8", 5.2, 5.2, 4.6, 5.2, 5.2, 4.6),
        balls("-12,-6 12,-6 -8,-11 8,-11 0,-13 -10,-4 -5.4,-6 0,-5.4 5.4,-6 10,-4",
              4.6, 4.6, 5.2, 5.2, 5.6, 3, 3.6, 3.6, 3.6, 3),
        [strand("-9,-8 -7.4,-10 -5,-9.4"), strand("3,-9 4.6,-11 7,-10.4"), strand("-2,-6 0,-7.4 2,-6")],
        balls("9.4,-6 11.4,-7.4 10.6,-4.6 8,-4.8 8.6,-7.6", 1.4, 1.4, 1.4, 1.4, 1.4)),
}
SIDE_HAIR = {
    "blue bob": Hair(
        [curve(knots("0,-13 -10,-11 -15,-2 -15,8 -10,12 -2,11.4"))],
        [curve(knots("12.8,-2.4 11.4,-8 5,-12.8 -3,-14 -10.4,-11 -14.4,-3 -14.8,6 -11,11 -4.6,10.6 -1.8,9 -1,2 3,-2.8 "
                     "9,-2.4"))],
        [strand("8.6,-7.4 9.6,-5 9.4,-3"), strand("-6,-2 -6.4,3 -5,9"), strand("-11,0 -11.4,4 -10,8.6")],
        [star(4.4, -5, 2.8, 5, 0.5)]),
    "pink tails": Hair(
        [curve(knots("-9,-8 -16,-11 -21.4,-3 -20.4,7 -16.4,15 -16.4,15 -14,7 -12,1"))],
        [curve(knots("12.8,-1.4 12.8,-1.4 11.4,-8 5,-12.6 -3,-13.8 -10,-10.8 -13.8,-4 -12,3 -7,6.4 -5,3 -2.6,1 1.6,2.6 "
                     "4,-3.6 8,-5.4"))],
        [strand("-11,-5 -7,-6 -3,-9"), strand("-11.4,1 -7,0 -3,-3")],
        [oval(-12.6, -6, 1.8, 2.6)]),
    "golden spikes": Hair(
        [knots("7,-19.6 -1,-14 -7,-20.4 -9.4,-12.6 -17.6,-14.4 -14.6,-6 -21.6,-4 -15,1 -19.4,8 -11,8 -7,11 2,0")],
        [knots("13.4,-0.4 12.2,-7 6,-12.6 -3,-14 -10,-11 -14,-3 -12.6,6 -8.6,4 -6.6,8 -3.4,1.4 0.8,5.6 2.4,-3 5.4,0.2 "
               "7.6,-4.4 10.2,-0.6 11,-4")],
        [strand("2,-10 3,-6.6 2.4,-3"), strand("-9,-3 -8,0 -8.4,4")],
        []),
    "silver long": Hair(
        [curve(knots("0,-13 -10,-11 -15,-2 -16.2,8 -18.2,14 -18.2,14 -12,14.6 -4,12 0,8"))],
        [curve(knots("12.6,-2 12.6,-2 11,-8.4 5,-12.8 -3,-14 -10.4,-11 -14.4,-3 -15,6 -13.4,13 -13.4,13 -6,11.8 "
                     "-3,12.4 -3,12.4 -1,6.4 0,0 5,-5"))],
        [strand("-3,-3 -3.6,4 -5,10.4"), strand("-7,-6 -8.2,2 -8.6,10.4"), strand("-10.6,-4 -12,3 -12,9")],
        balls("2.4,-7 4.8,-5 1.6,-4.4 4.4,-7.8", 1.5, 1.5, 1.5, 1.5)),
    "crimson bun": Hair(
        [oval(-7.4, -14.8, 6.4, 5.6)],
        [curve(knots("12.8,-0.6 12.8,-0.6 11.4,-8 5,-12.6 -3,-14 -10.4,-11 -14,-3 -12.4,4 -8,7 -5.4,3 -2.6,1 0.6,2 "
                     "1.4,7 1.4,7 3.6,1 4.4,-3.6 8.6,-3.4"))],
        [strand("-12,1 -10,-4 -7,-9"), strand("-7,3 -5,-3 -3.6,-9")],
        [knots("-6,-12 -3.4,-15.4 -0.6,-12 -5.6,-11 -8.4,-8 -11,-11.4")]),
    "teal curls": Hair(
        balls("-8,-9 -13,-4 -14.4,3 -11,8.6 -5,9", 5.2, 5.2, 5, 4.6, 4),
        balls("9,-8 4,-11 -3,-12.4 -9,-8.6 -12,-2 -11,4 -6,-3 -6,5 -1.6,2 1,-4 6,-6 10.6,-4",
              4.2, 5.2, 5.2, 5.2, 4.6, 4.2, 5, 4.2, 3.4, 4, 3.6, 2.8),
        [strand("-4,-7.4 -2,-9 0,-7.6"), strand("-11,-2 -9,-3.6 -7,-2"), strand("-3,1 -1.6,-0.6 0.6,0.6")],
        balls("4.4,-5 6.4,-6.4 5.6,-3.6 3,-3.8 3.6,-6.6", 1.4, 1.4, 1.4, 1.4, 1.4)),
}
# fmt: on


def paint_back_hair(pen: Pen, pose: Pose, hair: str) -> None:
    shapes = (SIDE_HAIR if pose.profile else FRONT_HAIR)[hair].back
    at_head(pen, pose, pose.sway).draw(mix(HAIRS[hair][0], INK, 0.16), *shapes)


def paint_fringe(pen: Pen, pose: Pose, hair: str) -> None:
    style = (SIDE_HAIR if pose.profile else FRONT_HAIR)[hair]
    colour, accent = HAIRS[hair]
    pen = at_head(pen, pose)
    pen.draw(colour, *style.fringe)
    pen.fill(mix(colour, INK, 0.4), *style.strands)
    pen.fill(mix(colour, WHITE, 0.6), curve(knots("-8,-7 -4,-10 1,-10.8 1,-9.2 -3.6,-8 -7.2,-5.6")))
    pen.fill(accent, *style.pins)


# --- all characters at once -------------------------------------------------------------------------------------------

VALUES: dict[str | None, list[Any]] = {
    None: [None],
    "skin": list(SKINS.values()),
    "pants": list(PANTS.values()),
    "top": list(TOPS.values()),
    "hair": list(HAIRS),
}
Layer = tuple[str | None, Callable[[Pen, Pose, Any], None]]  # the factor it belongs to, and how it is painted
BEFORE: tuple[Layer, ...] = (
    (None, paint_magic),
    ("top", partial(paint_sleeves, near=True)),
    ("skin", partial(paint_hands, near=True)),
    (None, paint_sword),
    ("hair", paint_fringe),
)
BODY: tuple[Layer, ...] = (
    (None, paint_face),
    ("skin", paint_head),
    ("top", paint_torso),
    ("pants", paint_pants),
    (None, paint_shoes),
    ("skin", paint_legs),
    ("top", partial(paint_sleeves, near=False)),
    ("skin", partial(paint_hands, near=False)),
)
BEHIND: tuple[Layer, ...] = (("hair", paint_back_hair),)


def over(front: Array, back: Array) -> Array:
    """Lay premultiplied colours on others; `back` may be opaque, without an alpha."""
    result: Array = back * (1 - front[..., 3:, :, :])
    result += front[..., : back.shape[-3], :, :]
    return result


def merge(size: int, pose: Pose, layers: tuple[Layer, ...]) -> Array:
    """Layers from front to back as (skin, pants, top, hair, channel, row, column), of length 1 where nothing varies."""
    merged: Array = np.zeros((1, 1, 1, 1, 4, size, size), np.float32)
    for factor, paint in layers:
        pictures = []
        for value in VALUES[factor]:
            image = Image.new("RGBA", (CANVAS, CANVAS))
            paint(Pen(ImageDraw.Draw(image)), pose, value)
            pictures.append(np.asarray(image.convert("RGBa").reduce(CANVAS // size)))
        layer = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32)
        layer[:, 3] /= 255
        axes = [len(layer) if name == factor else 1 for name in FACTORS if name != "action"]
        merged = over(merged, layer.reshape(*axes, 4, size, size))
    return merged


def scene(size: int, pose: Pose) -> tuple[Array, Array, Array]:
    """The three stacks kept apart: stacking is associative, and only their sum depends on every factor."""
    night = np.broadcast_to(np.array(NIGHT, np.float32)[:, None, None], (3, size, size))
    return merge(size, pose, BEFORE), merge(size, pose, BODY), over(merge(size, pose, BEHIND), night)


def labels() -> dict[str, np.ndarray]:
    """The value of every factor in every sequence."""
    grid = np.indices(SHAPE).reshape(len(SHAPE), -1).astype(np.int64)
    return dict(zip(FACTORS, grid, strict=True))


def draw(size: int, out: np.ndarray, advance: Callable[[int], None] | None = None) -> None:
    """Fill `out` (11664, 8, 3, size, size) uint8; `advance(n)` is called after every n sequences drawn."""
    if size not in SIZES:
        raise ValueError(f"puppets are drawn at {' or '.join(map(str, SIZES))} pixels, not {size}")
    skins, cuts, tops, hairs, actions = SHAPE
    wardrobe = tops * hairs  # characters that share skin and pants
    for verb, act in enumerate((walk, cheer, slash)):
        for profile, directions in ((False, (0,)), (True, (1, 2))):
            for frame in range(FRAMES):
                stacks = scene(size, act(frame / FRAMES, profile))
                for skin, pants in product(range(skins), range(cuts)):
                    before, body, behind = (stack[skin % len(stack)] for stack in stacks)
                    picture = over(before[0], over(body[pants], behind[0])).reshape(wardrobe, 3, size, size)
                    picture += 0.5  # the cast below cuts decimals off
                    for direction in directions:
                        mirror = -1 if DIRECTIONS[direction] == "left" else 1
                        first = (skin * cuts + pants) * wardrobe * actions + len(DIRECTIONS) * verb + direction
                        out[first : first + wardrobe * actions : actions, frame] = picture[..., ::mirror]
            if advance:
                advance(len(directions) * skins * cuts * wardrobe)
