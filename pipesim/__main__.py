"""`python -m pipesim` is the command `pipesim`."""

from pipesim.cli import main

if __name__ == "__main__":
    main()
