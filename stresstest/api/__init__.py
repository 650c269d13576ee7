"""The Python API: what `import stresstest` offers. Thin functions over the rooms that the commands use."""

from stresstest.api.campaigns import load_run as load_run
from stresstest.api.campaigns import measure as measure
from stresstest.api.detection import detect as detect
from stresstest.api.detection import detect_many as detect_many
from stresstest.api.frames import to_pandas as to_pandas
from stresstest.api.frames import to_polars as to_polars
from stresstest.api.frames import to_rows as to_rows
from stresstest.api.recorded import scan as scan
from stresstest.api.streaming import StreamDetector as StreamDetector
from stresstest.api.verdict import Verdict as Verdict
from stresstest.errors import EndpointError as EndpointError
from stresstest.errors import StoreError as StoreError
from stresstest.errors import StresstestError as StresstestError
from stresstest.errors import UsageError as UsageError
from stresstest.model import RunResult as RunResult
from stresstest.model import Threshold as Threshold
from stresstest.model.scanned import GroupResult as GroupResult
from stresstest.model.scanned import ScanResult as ScanResult
