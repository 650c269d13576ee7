"""What type checkers know of the package; its names are loaded when they are first used."""

from stresstest.api import EndpointError as EndpointError
from stresstest.api import GroupResult as GroupResult
from stresstest.api import RunResult as RunResult
from stresstest.api import ScanResult as ScanResult
from stresstest.api import StoreError as StoreError
from stresstest.api import StreamDetector as StreamDetector
from stresstest.api import StresstestError as StresstestError
from stresstest.api import Threshold as Threshold
from stresstest.api import UsageError as UsageError
from stresstest.api import Verdict as Verdict
from stresstest.api import detect as detect
from stresstest.api import detect_many as detect_many
from stresstest.api import load_run as load_run
from stresstest.api import measure as measure
from stresstest.api import scan as scan
from stresstest.api import to_pandas as to_pandas
from stresstest.api import to_polars as to_polars
from stresstest.api import to_rows as to_rows

__version__: str
__all__: tuple[str, ...]
