#!/usr/bin/env bash
# Lists what an installation of the wheel brings (dist/sbom.cdx.json, CycloneDX 1.6), and looks it up among the
# known vulnerabilities where their data can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m build --wheel --outdir "$scratch/dist" >"$scratch/build.log" 2>&1 || { cat "$scratch/build.log"; exit 1; }
python3 -m venv "$scratch/env"
"$scratch/env/bin/pip" install --quiet "$scratch"/dist/*.whl
"$scratch/env/bin/pip" uninstall --quiet --yes pip setuptools
python3 -m venv "$scratch/tools"
"$scratch/tools/bin/pip" install --quiet "cyclonedx-bom>=7.5" "pip-audit>=2.10"
mkdir -p dist
"$scratch/tools/bin/cyclonedx-py" environment "$scratch/env/bin/python" --pyproject pyproject.toml --of JSON -o dist/sbom.cdx.json
site=$("$scratch/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$scratch/tools/bin/pip-audit" --path "$site" --progress-spinner off --format json >"$scratch/audit.json" 2>"$scratch/audit.log" || true
python3 - "$scratch/audit.json" <<'PYTHON'
import json, sys
try:
    found = json.load(open(sys.argv[1], encoding="utf-8"))["dependencies"]
except ValueError:
    found = []
audited = [each for each in found if "vulns" in each]
if not audited:
    sys.exit(print("the data on vulnerabilities cannot be reached: nothing was audited"))
bad = [f"{each['name']} {each['version']}: {hole['id']}" for each in audited for hole in each["vulns"]]
print("\n".join(bad) or f"no known vulnerability in {len(audited)} packages")
sys.exit(bool(bad))
PYTHON
