"""Make kept figures small, 256 colours each: python experiments/quantise.py [FILE.png ...], by default all of them.

Beside full colours hardly a pixel differs (edges of letters over lines), at a third of the bytes.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent


def quantise(pictures: Iterable[Path]) -> None:
    """Write pictures again in colours of a palette; those that have one already are left as they are."""
    for path in pictures:
        with Image.open(path) as picture:
            if picture.mode == "P":
                continue
            whole = Image.new("RGB", picture.size, "white")
            whole.paste(picture, mask=picture.getchannel("A") if "A" in picture.mode else None)
            dpi = picture.info.get("dpi", (200, 200))
        few = whole.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE)
        few.save(path, dpi=dpi, optimize=True)


if __name__ == "__main__":
    quantise(map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(HERE.rglob("*.png")))
