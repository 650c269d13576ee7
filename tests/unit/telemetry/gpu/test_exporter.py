"""GPU exporters' pages and whose GPUs they are: names and units, XIDs against the page before, locality."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.telemetry.gpu.exporter import ExporterReader, ExporterSampler, exporter_url
from stresstest.telemetry.gpu.watch import GpuWatch, is_local, parse_gpus
from tests.support.deaf_port import deaf_port
from tests.support.paths import DATA

DCGM = (DATA / "gpu_dcgm.txt").read_text(encoding="utf-8")
SMI = (DATA / "gpu_nvidia_smi.txt").read_text(encoding="utf-8")
UUID = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"
GIB = 1 << 30


def test_dcgm_names_and_units() -> None:
    """Percent and MiB become shares and bytes; DCGM's "not supported" is not a number of errors."""
    (sample,) = ExporterReader().read(DCGM, 5.0) or []
    assert (sample.at, sample.gpu, sample.source) == (5.0, "0", "DCGM")
    assert (sample.utilisation, sample.power, sample.temperature) == (0.98, 318.25, 66.0)
    assert (sample.memory_used, sample.memory_total) == (36000 << 20, 40000 << 20)
    assert (sample.sm_clock, sample.memory_clock, sample.pcie_replays) == (1410.0, 1215.0, 3)
    assert (sample.throttle, sample.ecc_uncorrected, sample.power_limit) == (None, None, None)
    assert sample.device is not None
    assert (sample.device.name, sample.device.uuid) == (
        "NVIDIA A100-SXM4-40GB",
        "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",
    )
    missing = sample.device.missing
    assert set(missing) == {"throttle", "ecc_uncorrected", "power_limit"}
    assert missing["ecc_uncorrected"] == "not supported by this GPU"
    assert "add DCGM_FI_DEV_CLOCKS_EVENT_REASONS" in missing["throttle"]


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"])
def test_dcgm_throttle_reasons_under_both_names(name: str) -> None:
    """The mask was renamed in DCGM 3.3; its bits are NVML's."""
    (sample,) = ExporterReader().read(f'{name}{{gpu="0",UUID="GPU-1"}} 72\n', 1.0) or []
    assert sample.throttle == ("hw_slowdown", "hw_thermal_slowdown")


def test_dcgm_shows_the_last_xid_only() -> None:
    """The one that stands there at first is history; a change to another is news, the same again is not."""
    pages = ExporterReader()
    found = []
    for xid in (43, 43, 79, 79, 0, 79):
        page = DCGM.replace('Hostname="node-a"} 43', f'Hostname="node-a"}} {xid}')
        (sample,) = pages.read(page, 1.0) or []
        found.append(sample.xids)
    assert found == [(), (), (79,), (), (), (79,)]


def test_dcgm_mig_instances_and_hosts_are_told_apart() -> None:
    """Instances share their GPU's UUID; two machines behind one page share indices."""
    mig = 'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",GPU_I_ID="%d"} 1024\n'
    instances = ExporterReader().read(mig % 3 + mig % 5, 1.0) or []
    assert [(s.gpu, s.memory_used) for s in instances] == [("0:mig3", GIB), ("0:mig5", GIB)]
    hosts = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="%s"} 5\n'
    both = ExporterReader().read(hosts % "a" + hosts % "b", 1.0) or []
    assert [s.gpu for s in both] == ["a/0", "b/0"]


def test_nvidia_smi_names_and_units() -> None:
    """Ratios and bytes as they are, hertz become MHz, the index stands for the UUID."""
    (sample,) = ExporterReader().read(SMI, 2.0) or []
    assert (sample.gpu, sample.source, sample.utilisation) == ("0", "nvidia_gpu_exporter", 0.97)
    assert (sample.memory_used, sample.memory_total) == (11_665_408_000, 85_520_809_984)
    assert (sample.power, sample.power_limit, sample.temperature) == (433.78, 700.0, 53.0)
    assert (sample.sm_clock, sample.memory_clock) == (1980.0, 2619.0)
    assert sample.throttle == ("sw_power_cap", "sw_thermal_slowdown")
    assert (sample.ecc_uncorrected, sample.xids, sample.pcie_replays) == (0, None, None)
    assert sample.device is not None
    assert (sample.device.name, set(sample.device.missing)) == (
        "NVIDIA H100 80GB HBM3",
        {"pcie_replays", "xids"},
    )


def test_nvidia_smi_xids_are_counted_from_the_first_page() -> None:
    """Only its NVML backend tells them; a series that appears has counted from zero."""
    page = SMI + "nvidia_smi_nvml_return_code 0\n"
    series = f'nvidia_smi_xid_errors_total{{uuid="{UUID}",xid="%d"}} %d\n'
    pages = ExporterReader()
    found = []
    for extra in ("", series % (79, 1), series % (79, 1) + series % (31, 2), series % (79, 3)):
        (sample,) = pages.read(page + extra, 1.0) or []
        found.append(sample.xids)
    assert found == [(), (79,), (31, 31), (79, 79)]


def test_a_stale_page_is_none() -> None:
    """The exporter itself says that its last collection failed: its numbers are older than they look."""
    stale = SMI.replace("nvidia_smi_last_collect_success 1", "nvidia_smi_last_collect_success 0")
    assert ExporterReader().read(stale, 1.0) is None


def test_a_number_of_hundreds_of_digits_ends_nothing() -> None:
    """Without a point it is an integer of Python's, of any length."""
    page = SMI.replace("nvidia_smi_last_collect_success 1", f"nvidia_smi_last_collect_success {'9' * 400}")
    assert ExporterReader().read(page, 1.0) is None


def test_a_gpu_that_leaves_the_page_is_lost_once() -> None:
    """The other one goes on; should the first come back, it is sampled again."""
    two = DCGM + DCGM.replace('gpu="0"', 'gpu="1"').replace("GPU-604ac76c", "GPU-704ac76c")
    pages = ExporterReader()
    found = [[(s.gpu, s.lost is not None) for s in pages.read(p, 1.0) or []] for p in (two, DCGM, DCGM, two)]
    both = [("0", False), ("1", False)]
    assert found == [both, [("0", False), ("1", True)], [("0", False)], both]


def test_gpus_without_number_are_not_kept() -> None:
    """Each page of an exporter had 80 GPUs of new names: all were kept, and each was reported as lost."""
    pages = ExporterReader()
    found = [pages.read(_gpus(range(80 * page, 80 * page + 80)), 1.0) for page in range(9)]
    assert [page is not None for page in found] == [True] + [False] * 8
    assert len(pages._last_devices) == 80
    assert len(pages.read(_gpus(range(128)), 1.0) or ()) == 128


@pytest.mark.parametrize("label", ["gpu", "UUID", "modelName"])
def test_names_without_end_are_not_kept(label: str) -> None:
    """Every reading keeps what names its GPU: 3,000 characters a reading took 540 MB in two minutes."""
    for length, taken in ((300, True), (301, False)):
        labels = {"gpu": "0", "UUID": "u", "modelName": "m", label: "n" * length}
        listed = ",".join(f'{name}="{text}"' for name, text in labels.items())
        found = ExporterReader().read(f"DCGM_FI_DEV_GPU_UTIL{{{listed}}} 5\n", 1.0)
        assert (found is not None) is taken


def test_readings_of_one_gpu_share_its_name() -> None:
    """There is one a second of each, for hours."""
    pages = ExporterReader()
    first, second = ((pages.read(_gpus(["a-name"]), at) or [])[0] for at in (1.0, 2.0))
    assert first.gpu is second.gpu


def _gpus(names: Iterable[object]) -> str:
    """A page of dcgm-exporter with these GPUs."""
    return "".join(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{name}",UUID="u{name}"}} 5\n' for name in names)


def test_chosen_gpus_only() -> None:
    """By index or by the beginning of a UUID, with or without its prefix."""
    for name in ("0", "GPU-604ac76c", "604AC76C"):
        assert len(ExporterReader([name]).read(DCGM, 1.0) or []) == 1
    assert ExporterReader(["1"]).read(DCGM, 1.0) == []


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html>no</html>",
        "vllm:num_requests_running 3\n",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0" 5',
        "nvidia_smi_x 1\n",
    ],
)
def test_a_page_without_gpus_is_none(page: str) -> None:
    """Another page, or half of one, gives no readings rather than empty ones."""
    assert ExporterReader().read(page, 1.0) is None


@settings(max_examples=150)
@given(
    st.sampled_from(["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"]),
    st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**30), 10**30),
)
def test_no_number_on_a_page_does_harm(name: str, value: float) -> None:
    """An exporter's page is foreign text: whatever it claims, counters stay whole and within 64 bits."""
    pages = ExporterReader()
    base = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\nDCGM_FI_DEV_XID_ERRORS{gpu="0"} 0\n'
    assert len(pages.read(base, 1.0) or []) == 1
    (sample,) = pages.read(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} 5\n{name}{{gpu="0"}} {value}\n', 1.0) or []
    counts = (sample.memory_used, sample.memory_total, *(sample.xids or ()))
    assert all(count is None or 0 <= count < 1 << 63 for count in counts)


def test_hostile_xid_series_are_bounded() -> None:
    """A counter that jumps by 10^18 is no list of 10^18 events, and a label of digits no huge number."""
    pages = ExporterReader()
    page = SMI + "nvidia_smi_nvml_return_code 0\n"
    pages.read(page, 1.0)
    extra = f'nvidia_smi_xid_errors_total{{uuid="{UUID}",xid="%s"}} 1e18\n'
    (sample,) = pages.read(page + extra % "31" + extra % ("9" * 5000), 1.0) or []
    assert sample.xids == (31,) * 64


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: list[tuple[int, str]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        answers = self.server.answers
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status if self.path == "/metrics" else 404)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


@pytest.fixture
def exporter() -> Iterator[_Server]:
    """An exporter on a free port of this machine."""
    found = _Server(("127.0.0.1", 0), _Handler)
    found.answers = [(200, DCGM)]
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


async def test_an_exporter_is_sampled_through_its_failures(exporter: _Server) -> None:
    """A failed page is counted and named, and the next good one is read; the path is /metrics by itself."""
    exporter.answers = [(200, DCGM), (500, "no"), (200, "<html>"), (200, DCGM)]
    sampler = ExporterSampler(exporter.url, interval=0.01, timeout=60)
    await sampler.start()
    async with asyncio.timeout(60):
        while len(sampler.samples) < 3:
            await asyncio.sleep(0.005)
    await sampler.stop()
    await sampler.stop()
    assert (sampler.trouble, sampler.failures) == (None, 2)
    assert sampler.last_error == "the page holds no GPU metrics that we know"
    assert [s.at for s in sampler.samples] == sorted(s.at for s in sampler.samples)
    assert [d.gpu for d in sampler.devices] == ["0"]


@pytest.mark.parametrize(
    ("answer", "wanted", "why"),
    [
        ((401, ""), [], "HTTP 401"),
        ((200, "vllm:num_requests_running 1\n"), [], "no GPU metrics that we know"),
        ((200, DCGM), ["5"], "none of its GPUs is 5"),
    ],
)
async def test_a_useless_exporter_is_told_at_the_start(
    exporter: _Server, answer: tuple[int, str], wanted: list[str], why: str
) -> None:
    """One sentence, without the password of its address."""
    exporter.answers = [answer]
    sampler = ExporterSampler(exporter.url.replace("127", "user:secret@127"), wanted, interval=0.01)
    await sampler.start()
    await sampler.stop()
    assert sampler.trouble is not None
    assert why in sampler.trouble
    assert "secret" not in sampler.trouble


async def test_an_exporter_that_is_not_there_is_told() -> None:
    """A refused connection is trouble, not an error."""
    with deaf_port() as port:
        sampler = ExporterSampler(f"http://127.0.0.1:{port}")
        await sampler.start()
        await sampler.stop()
    assert "ConnectError" in str(sampler.trouble)


@pytest.mark.parametrize(
    ("given_url", "url"),
    [
        ("node-a:9400", "http://node-a:9400/metrics"),
        ("http://node-a:9400/", "http://node-a:9400/metrics"),
        ("https://node-a/gpu?x=1", "https://node-a/gpu?x=1"),
    ],
)
def test_exporter_addresses(given_url: str, url: str) -> None:
    """What people paste: with or without scheme and path."""
    assert exporter_url(given_url) == url


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:80/v1"])
def test_loopback_is_this_machine(url: str) -> None:
    """The default endpoint is local."""
    assert is_local(url)


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:8000/v1", "http://[2001:db8::1]/v1", "http://no.invalid/v1", "x"]
)
def test_other_machines_are_not_this_one(url: str) -> None:
    """Addresses reserved for documentation belong to nobody here; a name that means nothing is not local."""
    assert not is_local(url)


async def test_nvml_is_never_attributed_to_a_remote_server() -> None:
    """Without being asked for, it is not even opened; the report says what would help."""
    watch = GpuWatch("auto", None, "http://192.0.2.1:8000/v1")
    await watch.start()
    await watch.stop()
    (missing,) = watch.missing
    assert watch.samples == []
    assert missing.cost.endswith("the server is on another machine")
    assert "--gpu-exporter URL" in (missing.remedy or "")


async def test_an_exporter_stands_in_for_a_remote_server(exporter: _Server) -> None:
    """Its readings are the server's, wherever it runs."""
    watch = GpuWatch("auto", exporter.url, "http://192.0.2.1:8000/v1")
    await watch.start()
    await watch.stop()
    assert watch.missing == ()
    assert {s.source for s in watch.samples} == {"DCGM"}


async def test_a_gpu_that_was_asked_for_and_is_not_there_is_refused(exporter: _Server) -> None:
    """`--gpus 3` used to measure without it."""
    watch = GpuWatch("17", exporter.url, "http://127.0.0.1:8000/v1")
    with pytest.raises(UsageError, match="--gpus 17 cannot be watched") as refused:
        await watch.start()
    assert "--gpus auto" in str(refused.value.hint)


async def test_none_is_none(exporter: _Server) -> None:
    """`--gpus none` reads nothing, not even from an exporter, and says so."""
    watch = GpuWatch("none", exporter.url, "http://127.0.0.1:8000/v1")
    await watch.start()
    await watch.stop()
    assert watch.samples == []
    assert "by --gpus none" in watch.missing[0].cost


def test_the_gpus_option() -> None:
    """auto, all, none and lists; anything else is refused with what would be understood."""
    assert (parse_gpus("auto").wanted, parse_gpus("auto").forced) == (True, False)
    assert (parse_gpus(" All ").forced, parse_gpus("none").wanted) == (True, False)
    assert parse_gpus("0, GPU-604ac76c,1:mig2").names == ("0", "GPU-604ac76c", "1:mig2")
    for bad in ("", "0,", "first", "-1"):
        with pytest.raises(UsageError, match="--gpus"):
            parse_gpus(bad)
