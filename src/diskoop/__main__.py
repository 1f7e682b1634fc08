"""`diskoop`, and `python -m diskoop`"""

import os
import signal
from contextlib import suppress

from diskoop.stop_signals import stop_signals


def main() -> None:
    """Run the command line. Until it is loaded a signal ends the process at once, with a word and exit code 1."""
    for number in stop_signals():
        signal.signal(number, _stop)
    from diskoop.cli import app  # which takes signals into its own hands

    app.main()


def _stop(*_: object) -> None:
    """End here and now: an exception would be taken for a fault by modules that are being loaded."""
    with suppress(OSError):  # stderr is closed or full
        os.write(2, b"diskoop: stopped\n")
    os._exit(1)


if __name__ == "__main__":
    main()
