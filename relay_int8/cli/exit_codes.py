"""What the command line returns to a shell; 2 is a usage error, as Typer has it."""

FAILED = 1
UNMET = 3  # less of the network is in integers, or it is less accurate, than was demanded
INTERRUPTED = 130  # what shells give for a program that Ctrl-C ended
