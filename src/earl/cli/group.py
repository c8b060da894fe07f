"""A group of commands that starts without what typer imports to read options."""

from typing import Any

from typer.core import TyperGroup


class Swift(TyperGroup):
    """A group whose own `--help`, where it is not given, is false and not None.

    To make a flag of None typer imports pydantic, which takes as long as all the rest.
    """

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option
