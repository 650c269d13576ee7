"""The options of a command in sections of its help, by what they are about."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

SECTIONS = {
    "Target": ("model", "lang", "task", "prompts", "base_url", "gpus", "gpu_exporter"),
    "Sampling": (
        "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
        "frequency_penalty", "system_prompt", "extra_body",
    ),
    "Budget": (
        "concurrency", "horizon", "budget_tokens", "budget_time", "stall_timeout", "no_abort", "resume",
    ),
    "Statistics": ("rigor", "margin", "tighten", "seed", "no_seed", "no_logprobs"),
    "Output": (
        "show", "picture", "openmetrics", "markdown", "junit", "github", "out", "output", "output_dir",
        "json_output", "help",
    ),
}  # fmt: skip
"""Section → its options, in the order of the help. All others are the command's own and come first."""


class SectionedCommand(TyperCommand):
    """A command whose help lists its arguments and its own options first, and then the sections."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections that have visible parameters."""
        rows: dict[str, list[tuple[str, str]]] = {}
        section_of = {name: title for title, names in SECTIONS.items() for name in names}
        order = {name: place for place, name in enumerate(section_of)}
        parameters = self.get_params(ctx)
        for parameter in sorted(parameters, key=lambda each: order.get(each.name or "", -1)):
            record = parameter.get_help_record(ctx)
            if record is not None:
                own = "Arguments" if parameter.param_type_name == "argument" else "Options"
                rows.setdefault(section_of.get(parameter.name or "", own), []).append(record)
        for title in ("Arguments", "Options", *SECTIONS):
            if title in rows:
                with formatter.section(title):
                    formatter.write_dl(rows[title])
