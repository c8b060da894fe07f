"""`python -m earl` is the command line, and so is the command `earl`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported is no traceback either."""
    try:
        from earl.cli.app import main

        main()
    except KeyboardInterrupt:
        sys.stderr.write("earl: stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
