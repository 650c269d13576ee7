#!/usr/bin/env bash
# run.sh [NAME…]: tests each integration with the real package, in an environment of its own under build/integrations.
set -euo pipefail
cd "$(dirname "$0")/../.."
# What the guard and the simulator need beside what detection needs.
serving="aiohttp>=3.14.4 typer>=0.16 rich>=13.7 prometheus-client>=0.20 uvloop>=0.19 pydantic-settings>=2.4"
declare -A packages=(
  [litellm]="litellm" [lm_eval]="lm-eval" [inspect_ai]="inspect-ai" [datatrove]="datatrove[io]" [frames]="pandas polars"
  [guard_clients]="litellm langchain-openai $serving"
  [otel]="opentelemetry-sdk opentelemetry-exporter-otlp-proto-http $serving"
  # The newest opentelemetry-util-genai has lost a module that the instrumentation of openai imports.
  [writers]="openai langfuse logfire langchain-openai openinference-instrumentation-openai \
    openinference-instrumentation-langchain opentelemetry-exporter-otlp-proto-http \
    opentelemetry-instrumentation-openai opentelemetry-instrumentation-openai-v2 opentelemetry-util-genai==0.4b0"
  [trl]="-r examples/dpo/requirements.txt --editable ."
)
# What detection needs of our dependencies: LiteLLM pins openai 2, which this project's client cannot use. For trl the
# whole command line is installed, whose exports it reads.
needed="numpy>=1.26 scipy>=1.12 msgspec>=0.18.6 regex langdetect==1.0.9 py3langid>=0.4,<0.5 platformdirs>=4.14 pyyaml"
for name in "${@:-litellm lm_eval inspect_ai datatrove frames guard_clients otel writers trl}"; do
  for each in $name; do
    home="build/integrations/$each"
    if [ ! -f "$home/.installed" ]; then
      "${PYTHON:-python3}" -m venv "$home"
      # shellcheck disable=SC2086
      "$home/bin/pip" install --quiet --disable-pip-version-check ${packages[$each]} $needed pytest pytest-asyncio
      "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --editable .
      touch "$home/.installed"
    fi
    "$home/bin/python" -m pytest -q --noconftest --override-ini=addopts= "tests/integrations/check_$each.py"
  done
done
