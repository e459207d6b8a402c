"""`make audit`: are there known vulnerabilities in the locked packages? By pip-audit, installed apart from the project.

Where no advisory service answers, pip-audit either fails or, worse, finds nothing in anything: a package with an advisory that
everybody knows is asked about first, and only a service that knows it is believed. Without one the audit is skipped, and says so;
with `AUDIT_REQUIRED=1` that is a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
#: Jinja2 2.11.2 has had PYSEC-2021-66 (CVE-2020-28493) since 2021
CANARY = "jinja2==2.11.2 --hash=sha256:f0a4641d3cf955324a89c04f3d94663aa4d638abe8f733ecd3582848e1c37035\n"
SERVICES = ("osv", "pypi")
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Advisory:
    package: str
    version: str
    advisory_id: str
    fixed_in: tuple[str, ...]


def advisories(report: Mapping[str, Any]) -> list[Advisory]:
    """What a report of pip-audit (`--format json`) names."""
    return [
        Advisory(package["name"], package["version"], found["id"], tuple(found.get("fix_versions", ())))
        for package in report["dependencies"]
        for found in package.get("vulns", ())
    ]


def unaudited(report: Mapping[str, Any]) -> list[str]:
    """Packages that the service did not know, so that nothing is said of them."""
    return [package["name"] for package in report["dependencies"] if "skip_reason" in package]


def read_accepted(text: str) -> set[str]:
    """The ids of accepted advisories; a line without a reason is none."""
    parts = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {words[0] for words in parts if len(words) == 2}


def ask(service: str, requirements: Path) -> Mapping[str, Any] | None:
    """pip-audit's report on a locked requirement file; None where it could not be made."""
    command = [
        *(str(Path(sys.executable).with_name("uv")), "run", "--quiet", "--no-project", "--isolated"),
        *("--python", sys.executable, "--with-requirements", str(REQUIREMENTS / "audit.txt")),
        *("pip-audit", "--requirement", str(requirements), "--require-hashes", "--disable-pip", "--no-deps"),
        *("--format", "json", "--progress-spinner", "off", "--timeout", "10", "--vulnerability-service", service),
    ]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        report: Mapping[str, Any] = json.loads(finished.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return report


def main() -> int:
    """Print what is known; exit code 0 nothing, or nobody to ask, 1 an advisory, or nobody where somebody is required."""
    canary = Path(os.environ.get("TMPDIR", "/tmp")) / f"gpu-net-audit-{os.getpid()}.txt"
    canary.write_text(CANARY)
    try:
        service = next((name for name in SERVICES if (report := ask(name, canary)) and advisories(report)), None)
    finally:
        canary.unlink()
    report = ask(service, REQUIREMENTS / "dev.txt") if service else None
    if service is None or report is None:
        print(f"audit skipped: no service ({', '.join(SERVICES)}) answered; one must know the advisory of {CANARY.split()[0]}")
        return int(bool(os.environ.get("AUDIT_REQUIRED")))
    accepted = read_accepted((REQUIREMENTS / "audit-accepted.txt").read_text())
    found = [advisory for advisory in advisories(report) if advisory.advisory_id not in accepted]
    for advisory in found:
        remedy = f"fixed in {', '.join(advisory.fixed_in)}: make lock" if advisory.fixed_in else "no release mends it yet"
        print(f"{advisory.package} {advisory.version}: {advisory.advisory_id}, {remedy}")
    told = f", {len(unaudited(report))} unknown to it" if unaudited(report) else ""
    print(f"audit by {service}: {len(report['dependencies'])} packages{told}, {len(found)} advisories, {len(accepted)} accepted")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
