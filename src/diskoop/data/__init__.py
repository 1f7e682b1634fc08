"""data sets by name or path"""

from diskoop.data.registry import (
    DATA_SETS,
    data_names,
    data_settings,
    load_data,
    load_split,
    location,
    open_data,
    register_data_set,
    settings_like,
    without_splits,
)
from diskoop.data.sequences import PIXELS, SPLITS, Sequences, SplitName, Units

__all__ = [
    "DATA_SETS",
    "PIXELS",
    "SPLITS",
    "Sequences",
    "SplitName",
    "Units",
    "data_names",
    "data_settings",
    "load_data",
    "load_split",
    "location",
    "open_data",
    "register_data_set",
    "settings_like",
    "without_splits",
]
