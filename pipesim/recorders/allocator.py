"""Keeping freed memory in the process, so that a layer's time does not depend on who freed memory before it.

By default glibc returns large tensors to the system when they are freed, and the next layer that allocates one waits
for its pages to be mapped and cleared: hundreds of thousands of faults in a pass of a convolutional network, which come
or not as the sizes before them decide. Training that reuses its memory, as on a GPU, does not have them.
"""

import ctypes
import os
import sys
from contextlib import suppress

# Parameters of glibc's mallopt, as in malloc.h, and the environment variables of the same meaning.
SETTINGS = {"MALLOC_MMAP_MAX_": (-4, 0), "MALLOC_TRIM_THRESHOLD_": (-1, -1), "MALLOC_TOP_PAD_": (-2, 2**26)}


def as_environment() -> str:
    """The settings as a shell has them, for the training whose times are predicted."""
    return " ".join(f"{name}={value}" for name, (_, value) in SETTINGS.items())


def keep_memory() -> bool:
    """Let this process keep what it frees; whether it does. What the environment sets for malloc is left alone."""
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        return all(mallopt(number, value) == 1 for number, value in SETTINGS.values())
    return False
