"""``python -m relay_int8``: the command line, where its script is not on the path."""

from relay_int8.cli import main

if __name__ == "__main__":  # processes that a command starts import this module
    main()
