import pytest

from helpers.profiles import training
from pipesim.base.errors import InputError
from pipesim.importers.kineto import kineto


def test_a_file_that_would_fill_the_memory_is_refused(tmp_path):
    import zlib

    maker = zlib.compressobj(9, wbits=31)
    bomb = b"".join(maker.compress(b" " * 2**20) for _ in range(80)) + maker.flush()
    (tmp_path / "p.json.gz").write_bytes(bomb)
    assert len(bomb) < 2**18
    with pytest.raises(InputError, match=r"p\.json\.gz: expands to more than \d+ bytes"):
        kineto(tmp_path / "p.json.gz")


def test_a_gzip_file_that_was_cut_off_is_refused(tmp_path):
    path = training().write(tmp_path / "p.json.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"p\.json\.gz: is an incomplete gzip file"):
        kineto(path)
