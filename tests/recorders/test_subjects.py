from functools import partial
from types import SimpleNamespace

import pytest

from pipesim.base.errors import InputError
from pipesim.recorders.subjects import Subject, failed, load_factory, run


def test_a_factory_is_found_by_its_module_and_name_with_options():
    assert load_factory("json:dumps").__name__ == "dumps"
    made = load_factory("json:dumps(indent=2)")
    assert isinstance(made, partial)
    assert made.keywords == {"indent": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models", "'models' found; a factory as module:factory"),
        ("models.py:gpt", "'models.py:gpt' found; the name of a module, package.module, and not of its file"),
        ("json:dumps(microbatch=4)", "microbatch is not an option there; give it with --microbatch"),
    ],
)
def test_another_form_of_a_factory_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        load_factory(text)


def test_a_module_that_ends_the_program_is_an_error_of_the_factory(tmp_path, monkeypatch):
    (tmp_path / "ends.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"factory 'ends:gpt': importing 'ends' raised SystemExit: 3"):
        load_factory("ends:gpt")


def test_errors_of_a_model_are_shown_in_one_line():
    assert str(failed("the forward", ValueError("no\nmore"), "; hint")) == "the forward raised ValueError: no; hint"

    def broken(_):
        raise KeyError("x")

    subject = Subject(("a",), (), None, broken, is_chain=True, device=SimpleNamespace(type="cpu"))
    with pytest.raises(InputError, match="the model's forward raised KeyError: 'x'"):
        run(subject)
