"""`diskoop`, and `python -m diskoop`"""

import signal


def main() -> None:
    """Run the command line. Until it is loaded Ctrl-C ends the process at once, without a word."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from diskoop.cli import app  # which takes signals into its own hands

    app.main()


if __name__ == "__main__":
    main()
