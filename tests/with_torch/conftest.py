"""Tests with PyTorch, run by `make test-torch`. Where there is none, they are not collected.

Not even for long enough to skip them: without PyTorch, `import torch` would give this very folder.
"""

import importlib.util

_found = importlib.util.find_spec("torch")
collect_ignore_glob = [] if _found and _found.origin else ["test_*.py"]
