"""`python -m earl` is the command line."""

from earl.cli import main

main()
