"""Texts that are credentials by their shape, whatever the field is called that holds them."""

from __future__ import annotations

import re

from stresstest.config.credentials.names import names_credential
from stresstest.model.address import SIGNING_FIELD

_RANDOM = "[A-Za-z0-9]{20,}"
_TOKENS = (
    # providers of models, and tools around them
    *(r"sk-(?=[\w-]*\d)[\w-]{16,}", r"nvapi-[\w-]{20,}", r"tvly-[\w-]{16,}", r"fc-[0-9a-f]{20,}"),
    *(rf"(?:hf|gsk|r8|fw|pcsk|jina)_{_RANDOM}", rf"(?:xai|pplx)-{_RANDOM}", r"lsv2_[ps][tk]_\w{16,}"),
    *(r"ls__[0-9a-f]{20,}", r"e2b_[0-9a-f]{20,}", r"dapi[0-9a-f]{32}", r"BSA(?=[\w-]*\d)[\w-]{24,}"),
    # code, packages, tickets and documents
    *(r"gh[pousr]_\w{20,}", r"github_pat_\w{20,}", r"gl(?:pat|dt|ptt|rt|cbt|soat)-[\w-]{16,}"),
    *(
        rf"(?:npm|ntn|figd|lin_api|lin_oauth)_{_RANDOM}",
        r"pypi-[\w-]{30,}",
        r"AT(?:ATT3x|CTT3x|BB)[\w=-]{20,}",
    ),
    *(r"secret_[A-Za-z0-9]{40,}", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}", r"PMAK-[\w-]{20,}"),
    # clouds, databases and keepers of secrets
    *(r"A(?:KIA|SIA)[A-Z0-9]{12,}", r"AIza[\w-]{30,}", r"ya29\.[\w-]{20,}", r"GOCSPX-[\w-]{20,}"),
    *(
        r"do[opr]_v1_[0-9a-f]{32,}",
        r"hv[sbr]\.[\w-]{20,}",
        r"dp\.[a-z]{2,7}\.[\w.-]{20,}",
        r"tskey-[\w-]{16,}",
    ),
    *(rf"(?:sbp|sb_secret|napi)_{_RANDOM}", r"pscale_\w{2,6}_[\w.-]{20,}", r"AGE-SECRET-KEY-\w{20,}"),
    # messages, payments and monitoring
    *(r"xox[a-z]-[\w-]{10,}", r"xapp-[\w-]{20,}", r"SG\.[\w-]{16,}\.[\w-]{16,}", r"\d{8,10}:AA[\w-]{30,}"),
    *(r"[sr]k_(?:live|test)_\w{16,}", rf"(?:whsec|phx)_{_RANDOM}", r"shp(?:at|ca|pa|ss)_[0-9a-f]{20,}"),
    *(r"key-[0-9a-f]{32}", r"gl(?:sa|c)_[\w=-]{20,}", r"NRAK-\w{20,}", r"sntry[su]_[\w=-]{20,}"),
    # of any service
    *(r"eyJ[\w-]{6,}\.eyJ[\w-]{6,}\.", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
)
"""The beginnings that services publish so that their keys are known as keys."""
TOKEN = re.compile(rf"(?<![\w.-])(?:{'|'.join(_TOKENS)})")
_SCHEME = re.compile(r"(?i)^(?:(?:bearer|basic)\s+\S{8,}|(?:token|apikey)\s+(?=\S*\d)\S{16,}$)")
HEADER_NAME = r"(?:proxy-)?authorization|cookie|(?:x|ocp-apim)-[\w-]{0,60}(?:key|token)"
_WITH_DIGIT = r"(?=\S{0,200}?\d)"
"""Of what follows. Bounded, as every part of a text that may begin again and again: time is linear."""
_HEADER = re.compile(rf"(?i)^(?:{HEADER_NAME})\s*:\s*\S{{4,}}")
_NO_PLACEHOLDER = r"(?!your|(?-i:[A-Z_]+)(?:[^\w]|$))[^\s<${\[*%]"
_HEADER_WITHIN = re.compile(
    rf"(?i)(?<![\w-])(?:{HEADER_NAME})\s*:\s*(?:(?:bearer|basic|token)\s+)?{_WITH_DIGIT}{_NO_PLACEHOLDER}\S{{7,}}"
)
ARGUMENT_NAME = r"--?[\w-]{0,60}(?:key|token|secret|password|passwd|credentials)"
_ARGUMENT = re.compile(
    rf"(?i)(?:^|\s)(?:{ARGUMENT_NAME}(?:=|\s+['\"]?){_WITH_DIGIT}{_NO_PLACEHOLDER}\S{{5,}}"
    rf"|-u\s+['\"]?[^\s:]{{1,100}}:{_WITH_DIGIT}{_NO_PLACEHOLDER}\S{{3,}})"
)
"""Of a command: ``--api-key=…``, ``curl -u user:password``."""
_ANNOUNCES = re.compile(rf"(?i)^(?:{ARGUMENT_NAME}|{HEADER_NAME})$")
_ADDRESS = re.compile(
    r"(?i)(?<![a-z0-9+.-])(?:https://hooks\.slack\.com/(?:services|workflows|triggers)/\S{8,}"
    r"|https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\S{8,}"
    r"|https://[\w.-]{1,100}\.webhook\.office\.com/\S{8,}"
    r"|[a-z][a-z0-9+.-]{1,20}://(?!user(?:name)?:pass(?:word)?@)[^/\s:@]{0,100}:[^/\s@]{1,200}@"
    rf"|[a-z][a-z0-9+.-]{{1,20}}://\S{{0,1000}}?{SIGNING_FIELD}{_NO_PLACEHOLDER}[^&\s]{{5,}})"
)
"""An address with a password, one that is signed, and one that lets whoever knows it in."""
_TOKEN_AS_USER = re.compile(r"://(?=[\w-]{0,100}\d)[\w-]{16,100}@[\w.-]{3,100}")
"""An address with a key in the place of a user: a DSN of Sentry's."""
_SIGNATURE = re.compile(r"(?:^|&)sig=[\w%+/=-]{20,}")
"""Of Azure's shared access, without an address before it."""
_ASSIGNED = re.compile(rf"(?:export\s+)?([A-Za-z_]\w{{0,60}})=['\"]?({_NO_PLACEHOLDER}\S{{5,}})")
"""A variable of the environment, as `docker run -e` takes it."""
_CONNECTION_PART = re.compile(r"(?:^|[;,\s])\s*([A-Za-z][\w ]{0,40}?)\s*=\s*([^;,\s]+)")
_CONNECTION_SECRET = re.compile(
    r"(?i)^(?:account|shared ?access|access)[-_ ]?(?:key|signature)$|^pass(?:word|wd|phrase)?$|^pwd$"
)
_LONGEST_CONNECTION = 2_000


def is_credential(text: str) -> bool:
    """Whether a text is a credential, or holds one. Its time is linear in the text's length."""
    patterns = (_SCHEME, _HEADER, TOKEN, _HEADER_WITHIN, _ARGUMENT, _ADDRESS, _TOKEN_AS_USER, _SIGNATURE)
    assigned = _ASSIGNED.fullmatch(text.strip())
    return (
        any(pattern.search(text) for pattern in patterns)
        or _is_connection_string(text)
        or (assigned is not None and names_credential(assigned[1]))
    )


def announces_credential(text: object) -> bool:
    """Whether the next element of a list is a credential: behind ``--api-key`` or ``Authorization``."""
    return isinstance(text, str) and bool(_ANNOUNCES.search(text))


def _is_connection_string(text: str) -> bool:
    """Whether a text is the address of a database or the like, a list of names and values, with a secret:
    ``AccountEndpoint=…;AccountKey=…``, ``host=… password=…``."""
    if len(text) > _LONGEST_CONNECTION or "=" not in text:
        return False
    parts = _CONNECTION_PART.findall(text)
    return len(parts) > 1 and any(_CONNECTION_SECRET.search(name) for name, _ in parts)
