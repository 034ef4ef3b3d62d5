"""``python -m deploy image|sbom|identities|up|down``: the container targets of the Makefile.

``python -m deploy secrets``: prints the secrets of a Helm release."""

import argparse
import subprocess
import sys
from pathlib import Path

import yaml
from rich.console import Console

from deploy import compose, image, kubernetes
from fog_emulation.fog_trust import FogTrust
from mistbow.flags import exit_on_errors


def main() -> None:
    """Run the command that the arguments name; print expected errors as text."""
    parser = argparse.ArgumentParser(prog="deploy", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("image", "up"):
        commands.add_parser(name).add_argument("--base")
    commands.choices["image"].add_argument("--roles", action="store_true")
    commands.choices["up"].add_argument("--tls", action="store_true")
    commands.add_parser("sbom").add_argument("--folder", type=Path, default=Path(".mistbow/sbom"))
    commands.add_parser("identities")
    secrets = commands.add_parser("secrets")
    secrets.add_argument("--values", type=Path)
    secrets.add_argument("--release", default="fog")
    secrets.add_argument("--namespace", default="mistbow")
    secrets.add_argument("--folder", type=Path)
    secrets.add_argument(
        "--trust-only",
        action="store_true",
        help="after mistbow ca rotate: trust the new authority, and keep all certificates",
    )
    commands.add_parser("down").add_argument("--images", action="store_true")
    arguments = parser.parse_args()
    try:
        with exit_on_errors():
            _run(arguments, Console())
    except subprocess.CalledProcessError as error:
        sys.exit(f"mistbow: {' '.join(error.cmd[:4])} … ended with {error.returncode}")


def _run(arguments: argparse.Namespace, console: Console) -> None:
    match arguments.command:
        case "image":
            roles = image.ROLES if arguments.roles else ("all",)
            image.build(arguments.base, console, roles)
        case "sbom":
            # Only developers have the package that writes it.
            from deploy.sbom import write_bills

            write_bills(image.BUILT, arguments.folder, console)
        case "identities":
            compose.deliver_identities(console)
        case "secrets":
            values = kubernetes.read_values(arguments.values)
            release, namespace = arguments.release, arguments.namespace
            # Two releases with one key would trust each other's services.
            own = Path(".mistbow", "kubernetes", f"{namespace}-{release}")
            trust, report = FogTrust(arguments.folder or own), Console(stderr=True).print
            found = kubernetes.secrets(
                values, release, namespace, trust, report, trust_only=arguments.trust_only
            )
            yaml.safe_dump_all(found, sys.stdout)
        case "up":
            compose.up(arguments.base, console, tls=arguments.tls)
        case _:
            compose.down(images=arguments.images, console=console)


if __name__ == "__main__":
    main()
