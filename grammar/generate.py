"""Generates the parser from ``Insights.g4``: ``python -m grammar.generate [--check]``.

The generator is ANTLR's "complete" jar from Maven Central. Ivy, which PySpark contains, fetches the
jar to ``.mistbow/``, where its SHA-256 is verified.
"""

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
GRAMMAR = HERE / "Insights.g4"
GENERATED = HERE / "generated"
MODULES = ("InsightsLexer.py", "InsightsParser.py")

_CACHE = HERE.parent / ".mistbow"
_VERSION = "4.13.2"
_SHA256 = "eae2dfa119a64327444672aff63e9ec35a20180dc5b8090b7a6ab85125df4d76"
_IVY_MODULE = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="mistbow" module="grammar"/>
  <dependencies>
    <dependency org="org.antlr" name="antlr4" rev="{_VERSION}" transitive="false">
      <artifact name="antlr4" type="jar" m:classifier="complete"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def generate(target: Path) -> None:
    """Write the generated modules to the folder ``target``.

    Raises OSError if ANTLR cannot be fetched, or if Java fails.
    """
    jar = _antlr_jar()
    with tempfile.TemporaryDirectory() as folder:
        # ANTLR writes the grammar's path into its output: a bare name is the same everywhere.
        shutil.copy(GRAMMAR, folder)
        _java(
            ["-jar", str(jar), "-Dlanguage=Python3", "-no-listener", "-no-visitor", GRAMMAR.name],
            cwd=Path(folder),
        )
        for module in MODULES:
            shutil.copy(Path(folder, module), target)


def stale(target: Path = GENERATED) -> list[str]:
    """Return the names of the modules in ``target`` that are missing or out of date."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        return [
            module
            for module in MODULES
            if not (target / module).is_file()
            or (target / module).read_bytes() != Path(folder, module).read_bytes()
        ]


def _antlr_jar() -> Path:
    jar = _CACHE / "antlr" / f"antlr4-{_VERSION}-complete.jar"
    if not jar.is_file():
        _fetch(jar.parent)
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    if digest != _SHA256:
        raise OSError(f"{jar.name} has the SHA-256 {digest}, not {_SHA256}: delete it and retry")
    return jar


def _fetch(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    description = folder / "ivy.xml"
    description.write_text(_IVY_MODULE)
    _java(
        [
            "-jar",
            str(_ivy_jar()),
            "-cache",
            str(folder / "ivy"),
            "-ivy",
            str(description),
            "-retrieve",
            str(folder / "[artifact]-[revision](-[classifier]).[ext]"),
        ],
        cwd=folder,
    )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise OSError("pyspark, which ships Ivy, is not installed")
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))


def _java(arguments: list[str], cwd: Path) -> None:
    done = subprocess.run(["java", *arguments], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"java {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    """Generate the modules; with ``--check``, only exit with 1 if a module is out of date."""
    parser = argparse.ArgumentParser(prog="python -m grammar.generate", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, only compare")
    if not parser.parse_args().check:
        generate(GENERATED)
    elif differing := stale():
        sys.exit(f"out of date: {', '.join(differing)}; run python -m grammar.generate")


if __name__ == "__main__":
    main()
