"""Where text is shown: how many columns there are, and whether it has colours."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal; `width` is None for files and pipes, whose lines may be of any length."""

    width: int | None = None
    colour: bool = False

    def bold(self, text: str) -> str:
        """Text that is to be seen first: the answer, the best of several."""
        return self._styled("1", text)

    def red(self, text: str) -> str:
        """Text of what cannot be: plans that do not fit."""
        return self._styled("31", text)

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Terminal()
