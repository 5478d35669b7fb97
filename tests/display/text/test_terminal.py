"""Where text is shown."""

from pipesim.display.text.terminal import PLAIN, Terminal


def test_colours_are_for_terminals_that_have_them():
    assert PLAIN.bold("best") == "best"
    assert Terminal(80, colour=True).red("NO") == "\x1b[31mNO\x1b[0m"
    assert not Terminal(80, colour=True).red("")
