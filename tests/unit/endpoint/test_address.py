"""The server's address as users type it, or paste it."""

from __future__ import annotations

import pytest

from stresstest.endpoint.address import EndpointAddress
from stresstest.errors import UsageError


@pytest.mark.parametrize("host", ["gpu–7:8000", "gpu\u20117", "“gpu”", "büro..lan", "bob:geheim12@gpu–7"])
def test_a_host_that_no_client_can_encode_is_a_sentence(host: str) -> None:
    """Text editors replace hyphens by dashes: the client's own error was called a bug of ours."""
    with pytest.raises(UsageError, match="is not a host name") as caught:
        EndpointAddress.parse(f"http://{host}/v1", None)
    assert "geheim12" not in str(caught.value)


@pytest.mark.parametrize("host", ["büro.lan", "gpu_7", "[::1]", "xn--bro-hoa.lan"])
def test_hosts_of_all_kinds_are_taken(host: str) -> None:
    """Names with letters of other scripts are names."""
    assert EndpointAddress.parse(f"http://{host}:8000/v1", None).base_url == f"http://{host}:8000/v1"
