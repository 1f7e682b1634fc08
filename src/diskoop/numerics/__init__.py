"""linear operators on latents, their spectra, and the factors in them"""

from diskoop.numerics.components import Components, dependence, group, independent_components
from diskoop.numerics.dmd import DMD, operator_from_dmd, operator_to_dmd
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.mixing import over_batch, over_two
from diskoop.numerics.operator import Operator, SnapshotQR, fit_operator, fit_operator_per_sequence
from diskoop.numerics.penalties import (
    ball_around_one,
    circle_away_from_one,
    distance_to_one,
    hinge_beyond,
    modulus_beyond,
    real_beyond,
    spectral_loss,
    spectral_terms,
    unit_modulus,
)
from diskoop.numerics.spectrum import Spectrum, by_distance, by_modulus

__all__ = [
    "DMD",
    "Components",
    "Factor",
    "Operator",
    "SnapshotQR",
    "Spectrum",
    "ball_around_one",
    "by_distance",
    "by_modulus",
    "circle_away_from_one",
    "dependence",
    "distance_to_one",
    "fit_operator",
    "fit_operator_per_sequence",
    "group",
    "hinge_beyond",
    "independent_components",
    "modulus_beyond",
    "operator_from_dmd",
    "operator_to_dmd",
    "over_batch",
    "over_two",
    "real_beyond",
    "spectral_loss",
    "spectral_terms",
    "swap",
    "unit_modulus",
]
