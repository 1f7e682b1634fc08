"""the signals that ask a command to end"""

import signal
import sys


def stop_signals() -> list[signal.Signals]:
    """SIGINT and SIGTERM, and SIGHUP where there is one: a terminal that is closed, unless nohup has it ignored.

    Example:
        >>> signal.SIGTERM in stop_signals()
        True
    """
    known = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        known.append(signal.SIGHUP)
    return known
