#!/usr/bin/env bash
# Debian's Chromium and its driver, and fonts that hold what models write, where they are missing.
set -euo pipefail
[ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ] && exit 0
if [ "$(id -u)" != 0 ]; then
  echo "chromium and chromium-driver are missing: apt-get install chromium chromium-driver" >&2
  exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  chromium chromium-driver fonts-dejavu-core >/dev/null
