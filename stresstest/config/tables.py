"""pydantic models of a project's [check] and [guard] tables. Import lazily: pydantic is slow to load.

The class docstrings are the descriptions in the published JSON Schema.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from stresstest.config import settings as config
from stresstest.errors import UsageError
from stresstest.model import SAMPLING
from stresstest.model.comparison import Severity
from stresstest.model.guard import GuardPolicy

SHARE: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%?\s*$"},
    ]
}
LENIENT: dict[str, Any] = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}


def _as_value_error(parse: Any, value: Any) -> float:
    """Call `parse`; raise its UsageError as a ValueError, so that pydantic adds the location."""
    try:
        return float(parse(value))
    except UsageError as error:
        raise ValueError(str(error)) from None


Share = Annotated[float, BeforeValidator(partial(_as_value_error, config.parse_share)), WithJsonSchema(SHARE)]
Duration = Annotated[
    float, BeforeValidator(partial(_as_value_error, config.parse_duration)), WithJsonSchema(LENIENT)
]


class ConfigTable(BaseModel):
    """A table that knows its keys."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class BudgetTable(ConfigTable):
    """A limit and what its breach does."""

    level: Severity = Field(
        Severity.ERROR, description="A breach fails the check (error) or is reported only (warn)."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Accept ``min_safe_tokens = 1500`` as short for ``{ value = 1500 }``."""
        return value if isinstance(value, dict) else {"value": value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        long = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [long["properties"]["value"], long]}


class ShareBudget(BudgetTable):
    """A budget that is a share."""

    value: Share = Field(description="A share: 0.02 or 2%.")


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


class Budgets(ConfigTable):
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


class ModelTable(ConfigTable):
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


class Override(ConfigTable):
    """Budgets of some cells."""

    models: list[str] = Field([], description="Only these; every model if empty. Likewise the others.")
    tasks: list[str] = Field([])
    languages: list[str] = Field([])
    decodings: list[str] = Field([])
    budgets: Budgets


# Sampling options have the same limits here as the run options.
_SAMPLING_FIELDS: Any = {name: f for name, f in config.option_fields().items() if name in SAMPLING}
DecodingTable: Any = create_model("Decoding", __base__=ConfigTable, **_SAMPLING_FIELDS)


class CheckTable(ConfigTable):
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
        description="Reuse a finished run of a cell for this long (12h). Default: never.",
    )
    allow_different: list[str] = Field([], description="What may differ from the baseline all the same.")
    budgets: Budgets = Field(Budgets.model_validate({}), description="Limits of every cell.")
    override: list[Override] = Field([], description="Limits of some cells; the last that names one wins.")


class GuardDefaults(ConfigTable):
    """What a rule of the guard sets, and the whole table for every rule."""

    policy: GuardPolicy = Field(GuardPolicy.COUNT, description="What is done to a request.")
    language: str | None = Field(None, description="Language of the answers.")
    task: str | None = Field(
        None, description="Task whose safe max_tokens is the cap. Default: the smallest of all."
    )
    symptoms: list[str] = Field([], description="Symptoms that act. Default: those of repetition.")
    max_tokens: int | None = Field(
        None, ge=1, strict=True, description="The cap, in place of the safe max_tokens."
    )
    change: dict[str, Any] = Field({}, description="Request fields of the second attempt.")


class GuardRuleTable(GuardDefaults):
    """What holds for the requests of some models or routes."""

    model: str = Field("*", description="Name as requested; a pattern such as Qwen*.")
    route: str = Field("*", description="Path such as /v1/chat/completions, or a pattern.")


class GuardTable(GuardDefaults):
    """The whole [guard]."""

    series: list[str] = Field(
        [
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "vllm:kv_cache_usage_perc",
            "vllm:num_preemptions_total",
        ],
        description="Series of the upstream's /metrics that /guard/metrics repeats.",
    )
    rules: list[GuardRuleTable] = Field([], description="For some requests; the last that fits one wins.")


BY_KEY: dict[str, type[BaseModel]] = {
    "check": CheckTable,
    "guard": GuardTable,
    "rules": GuardRuleTable,
    "models": ModelTable,
    "override": Override,
    "decodings": DecodingTable,
    "budgets": Budgets,
    "max_degeneration": RiskBudget,
    "min_safe_tokens": TokensBudget,
    "max_drop": ShareBudget,
    "max_increase": ShareBudget,
}
"""The model of the table under each key; `decodings` holds such tables by user-chosen names."""
