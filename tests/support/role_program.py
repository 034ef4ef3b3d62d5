"""``role_program ROLE python -m MODULE``: runs a module without packages that an image lacks.

The image is the target ROLE of the Dockerfile.
"""

import re
import runpy
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"


def omitted_packages(role: str) -> frozenset[str]:
    """Return the packages that the image of a role lacks, by their names in a registry."""
    pattern = rf'^ARG {role.upper()}_WITHOUT="([^"]+)"$'
    found = re.search(pattern, DOCKERFILE.read_text(), re.MULTILINE)
    assert found is not None
    return frozenset(found[1].split())


class MissingPackages:
    """A finder of modules for which packages are not installed; see ``importlib.abc``."""

    def __init__(self, packages: frozenset[str]) -> None:
        self._modules = {
            module for module, of in packages_distributions().items() if packages & {*of}
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> None:
        """Raise ``ModuleNotFoundError`` for a module of a missing package."""
        if name.split(".")[0] in self._modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    role, module = sys.argv[1], sys.argv[-1]
    sys.meta_path.insert(0, MissingPackages(omitted_packages(role)))
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
