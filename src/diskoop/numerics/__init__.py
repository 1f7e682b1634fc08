"""linear operators on latents, their spectra, and the factors in them"""

from diskoop.numerics.components import Components, average_linkage, dependence, independent_components
from diskoop.numerics.dmd import DMD, operator_from_dmd, operator_to_dmd
from diskoop.numerics.factors import Factor, swap
from diskoop.numerics.mixing import batch_weights, pair_weights
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
    "average_linkage",
    "ball_around_one",
    "batch_weights",
    "by_distance",
    "by_modulus",
    "circle_away_from_one",
    "dependence",
    "distance_to_one",
    "fit_operator",
    "fit_operator_per_sequence",
    "hinge_beyond",
    "independent_components",
    "modulus_beyond",
    "operator_from_dmd",
    "operator_to_dmd",
    "pair_weights",
    "real_beyond",
    "spectral_loss",
    "spectral_terms",
    "swap",
    "unit_modulus",
]
