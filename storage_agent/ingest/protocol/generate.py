"""The generator of the modules for remote write's messages.

Run ``python -m storage_agent.ingest.protocol.generate``.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODULES = ("remote_v1_pb2.py", "remote_v1_pb2.pyi", "remote_v2_pb2.py", "remote_v2_pb2.pyi")

_UNCHECKED = '# ruff: noqa\n# fmt: off\n# mypy: disable-error-code="type-arg"\n'


def generate(target: Path) -> None:
    """Write the generated modules to the folder ``target``; raises ``OSError`` if protoc fails."""
    sources = sorted(path.name for path in HERE.glob("*.proto"))
    flags = [f"--proto_path={HERE}", f"--python_out={target}", f"--pyi_out={target}"]
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *flags, *sources],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise OSError(f"protoc failed:\n{done.stdout}{done.stderr}")
    for module in MODULES:
        text = (target / module).read_text()
        (target / module).write_text(_UNCHECKED + text)


def stale(target: Path = HERE) -> list[str]:
    """Return the names of the modules in ``target`` that differ from newly generated modules."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        return [
            module
            for module in MODULES
            if not (target / module).is_file()
            or (target / module).read_bytes() != Path(folder, module).read_bytes()
        ]


if __name__ == "__main__":
    generate(HERE)
