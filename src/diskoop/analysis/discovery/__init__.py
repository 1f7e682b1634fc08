"""discovery of factors in a decomposition, by several methods"""

from diskoop.analysis.discovery.guided import Guided
from diskoop.analysis.discovery.label_free import LabelFree
from diskoop.analysis.discovery.mode_search import ModeSearch
from diskoop.analysis.discovery.results import (
    DISCOVERY_METHODS,
    DiscoveredFactor,
    DiscoveryResult,
    FactorDiscovery,
    discovery_method,
)

__all__ = [
    "DISCOVERY_METHODS",
    "DiscoveredFactor",
    "DiscoveryResult",
    "FactorDiscovery",
    "Guided",
    "LabelFree",
    "ModeSearch",
    "discovery_method",
]
