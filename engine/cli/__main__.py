"""`python -m engine.cli` is the console script `tideline`."""

from engine.cli.commands import main

if __name__ == "__main__":
    main()
