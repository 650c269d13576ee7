"""`scan`: recorded outputs in files to rates and limits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from stresstest.api.arguments import file_name, file_names, require_kinds, require_texts
from stresstest.config.settings import parse_share
from stresstest.detectors.identification.names import require_language
from stresstest.errors import UsageError
from stresstest.model import RIGORS
from stresstest.model.scanned import ScanResult
from stresstest.records import DamagedLine, expand_names, parse_fields
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import ScanSettings
from stresstest.scanning.scan import scan as scan_files

Path = str | os.PathLike[str]
_KINDS = {"show": int, "workers": int, "strict": bool}


class _Unwatched:
    """A listener that the result tells enough."""

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        pass

    def damaged(self, damaged: DamagedLine) -> None:
        pass

    def noticed(self, note: str) -> None:
        pass

    def unwritten(self, why: str) -> None:
        pass


def scan(
    files: Path | Iterable[Path],
    *,
    language: str | None = None,
    group_by: Sequence[str] = (),
    fields: Mapping[str, str] | None = None,
    tokenizer: Path | None = None,
    rigor: str = "standard",
    margin: str | float = 0.10,
    out: Path | None = None,
    show: int = 0,
    strict: bool = False,
    workers: int | None = None,
) -> ScanResult:
    """Degeneration rates and limits of outputs that you already have, as the command `scan` finds them.

    files: in any format that the command reads; addresses such as s3://bucket/*.jsonl too. group_by: keys of
    the records. fields: where a value is in your records, {"response": "path.to.text"}. tokenizer: the
    model's tokenizer.json. rigor: "quick", "standard" or "strict". margin: taken off the threshold, a share.
    out: a file for every verdict. show: so many of the worst are kept in `ScanResult.worst`. strict: a
    damaged line is an error. workers: processes, by default one a core. Raises UsageError for files and
    options that cannot be used.
    """
    require_texts(language=language, rigor=rigor)
    require_kinds({"show": show, "workers": workers, "strict": strict}, _KINDS)
    if rigor not in RIGORS:
        raise UsageError(f"The rigor {rigor!r} is not known: choose {', '.join(RIGORS)}.")
    require_language(language)
    keys = tuple(dict.fromkeys([group_by] if isinstance(group_by, str) else group_by))
    job = ScanJob(
        mapped=parse_fields([f"{name}={path}" for name, path in (fields or {}).items()], keys),
        keys=keys,
        language=language,
        tokenizer=None if tokenizer is None else file_name(tokenizer),
        show=show > 0,
    )
    settings = ScanSettings(
        files=tuple(expand_names(file_names(files))),
        job=job,
        rigor=rigor,
        margin=parse_share(margin),
        out=None if out is None else file_name(out),
        show=show,
        strict=strict,
        workers=workers,
    )
    return scan_files(settings, _Unwatched())
