"""What lets its holder in is shown of no address, and what does not is left as it is."""

from __future__ import annotations

import pytest

from stresstest.model.address import without_secrets


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("http://bob:hunter2@host/x", "http://host/x"),
        ("http://bob:p@hunter2@host/x", "http://host/x"),
        ("HTTPS://hunter2@host/x", "HTTPS://host/x"),
        ("http://bob:p/hunter2@host/x", "http://host/x"),
        ("'http:/bob:hunter2@host/x' is no file", "'http:/host/x' is no file"),
        ("the folder /a/postgresql/bob:hunter2@db is not there", "the folder /a/postgresql/db is not there"),
        ("https//bob:hunter2@host/x is no file", "https//host/x is no file"),
        ("notes//on: a@b", "notes//on: a@b"),
        ("s3://b/x?X-Amz-Signature=hunter2&part=1", "s3://b/x?X-Amz-Signature=…&part=1"),
        ("http://h/x?jwt=hunter2", "http://h/x?jwt=…"),
        ("http://h/x?pwd=hunter2&n=1", "http://h/x?pwd=…&n=1"),
        ("http://h/x#access_token=hunter2", "http://h/x#access_token=…"),
        ("http://h/x;jsessionid=hunter2", "http://h/x;jsessionid=…"),
        ("https://f.azurewebsites.net/x?code=hunter2&n=1", "https://f.azurewebsites.net/x?code=…&n=1"),
        ("oci://bucket@space/x?par=hunter2", "oci://bucket@space/x?par=…"),
        ("http://h/x?zipcode=20095", "http://h/x?zipcode=20095"),
        ("abfs://container@account/x", "abfs://container@account/x"),
        ("http://host:8000/a@b/x?part=1", "http://host:8000/a@b/x?part=1"),
        ("a plain text: with@signs and 12:30", "a plain text: with@signs and 12:30"),
    ],
)
def test_secrets_of_addresses(said: str, shown: str) -> None:
    """Also where a password was not encoded, or an address became a path."""
    assert without_secrets(said) == shown
