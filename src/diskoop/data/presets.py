"""the preset for a user's own files, by their kind: video, sound or series"""

from diskoop.data.registry import open_data
from diskoop.settings import DataSettings


def preset_for(settings: DataSettings) -> str:
    """The name of the preset for the sequences that `settings` describe."""
    data = open_data(settings, whole=True)
    if data.is_video:
        return "video"
    return "series" if data.units.rate is None else "sound"
