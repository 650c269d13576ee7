"""The tables of a project's [check], as pydantic reads them. Imported lazily: pydantic is slow to load."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)

from stresstest import config
from stresstest.errors import UsageError
from stresstest.model import SAMPLING
from stresstest.model.comparison import Severity

SHARE: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%?\s*$"},
    ]
}
LENIENT: dict[str, Any] = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}

Share = Annotated[float, WithJsonSchema(SHARE)]
Duration = Annotated[float, WithJsonSchema(LENIENT)]


def _as_value_error(parse: Any, value: Any) -> float:
    """pydantic names the place of a ValueError."""
    try:
        return float(parse(value))
    except UsageError as error:
        raise ValueError(str(error)) from None


class Table(BaseModel):
    """A table that knows its keys."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class BudgetTable(Table):
    """A limit and what its breach does."""

    level: Severity = Field(Severity.ERROR, description="A breach fails the check (error) or is told (warn).")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """``min_safe_tokens = 1500`` is short for ``{ value = 1500 }``."""
        return value if isinstance(value, dict) else {"value": value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        long = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [long["properties"]["value"], long]}


class ShareBudget(BudgetTable):
    """A budget that is a share."""

    value: Share = Field(description="A share: 0.02 or 2%.")

    @field_validator("value", mode="before")
    @classmethod
    def _share(cls, value: Any) -> float:
        return _as_value_error(config.parse_share, value)


class RiskBudget(ShareBudget):
    """A share of requests, by a token."""

    at_tokens: int | None = Field(
        None,
        ge=1,
        strict=True,
        description="Output tokens by which it counts. Default: the value of min_safe_tokens.",
    )


class TokensBudget(BudgetTable):
    """A budget in output tokens."""

    value: int = Field(ge=1, strict=True, description="Output tokens.")


class Budgets(Table):
    """The four budgets."""

    max_degeneration: RiskBudget | None = Field(
        None, description="Most requests that may degenerate by at_tokens, at the rigor's confidence."
    )
    min_safe_tokens: TokensBudget | None = Field(None, description="Least safe max_tokens.")
    max_drop: ShareBudget | None = Field(
        None, description="Most that the safe max_tokens may fall below the baseline's."
    )
    max_increase: ShareBudget | None = Field(
        None, description="Most added risk at the baseline's threshold: the test of `check`."
    )


class ModelTable(Table):
    """A model by its name, and where it is served."""

    name: str = Field(description="As served. Empty: the one that is served.")
    base_url: str | None = Field(None, description="Where, if not at base_url.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"name": value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core))]}


class Override(Table):
    """Budgets of some cells."""

    models: list[str] = Field([], description="Only these; every model if empty. Likewise the others.")
    tasks: list[str] = Field([])
    languages: list[str] = Field([])
    decodings: list[str] = Field([])
    budgets: Budgets


# The same limits on each sampling option as everywhere else.
_SAMPLING_FIELDS: Any = {name: f for name, f in config.option_fields().items() if name in SAMPLING}
DecodingTable: Any = create_model("Decoding", __base__=Table, **_SAMPLING_FIELDS)


class CheckTable(Table):
    """The whole [check]."""

    models: list[ModelTable] = Field([], description="Default: the run option model.")
    tasks: list[str] = Field([], description="Names or task files. Default: the run option task.")
    languages: list[str] = Field([], description="Default: the run option lang.")
    decodings: dict[str, DecodingTable] = Field(
        {}, description="Sampling options by a name of yours. Default: the run options."
    )
    baseline: str = Field(
        "previous",
        description="previous (the newest earlier run of the same cell), a run id, or a model.",
    )
    reuse: Duration | None = Field(
        None,
        description="A finished run of a cell counts as measured for so long (12h). Default: not at all.",
    )
    allow_different: list[str] = Field([], description="What may differ from the baseline all the same.")
    budgets: Budgets = Field(Budgets.model_validate({}), description="Limits of every cell.")
    override: list[Override] = Field([], description="Limits of some cells; the last that names one wins.")

    @field_validator("reuse", mode="before")
    @classmethod
    def _reuse(cls, value: Any) -> float | None:
        return None if value is None else _as_value_error(config.parse_duration, value)


BY_KEY: dict[str, type[BaseModel]] = {
    "check": CheckTable,
    "models": ModelTable,
    "override": Override,
    "decodings": DecodingTable,
    "budgets": Budgets,
    "max_degeneration": RiskBudget,
    "min_safe_tokens": TokensBudget,
    "max_drop": ShareBudget,
    "max_increase": ShareBudget,
}
"""Which table stands under a key; under `decodings`, at a name of the user's."""
