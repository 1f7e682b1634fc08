"""the signals that ask a command to end"""

import signal
import sys


def stop_signals() -> list[signal.Signals]:
    """SIGINT, SIGTERM, and SIGHUP for a terminal that is closed; none that whoever started this has it ignore.

    nohup has SIGHUP ignored, and a shell SIGINT in what scripts start in the background.

    Example:
        >>> signal.SIGTERM in stop_signals()
        True
    """
    known = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32":
        known.append(signal.SIGHUP)
    return [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
