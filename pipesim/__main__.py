"""`python -m pipesim` is the command `pipesim`.

It imports nothing slow before it can be interrupted without a traceback.
"""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly even while it is still being imported."""
    try:
        from pipesim.cli import main as run  # noqa: PLC0415 - the import is what may be interrupted

        run()
    except (KeyboardInterrupt, RuntimeError) as error:  # Python makes it the latter while it defines a class
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        sys.exit(130)


if __name__ == "__main__":
    main()
