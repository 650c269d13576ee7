"""Tasks and prompts: what is asked of the model.

A *task* is a TOML file: one instruction per language, asking for ``{units}`` numbered units about
``{topic}``. Topics are templates; their ``{slot}`` placeholders expand to the product of the slots, so that
n generations get n distinct prompts. A ``--prompts`` file is the user's own prompts instead.

Both files are foreign text. Placeholders are replaced literally and in one pass: nothing here is ever a
format string, and what was substituted is not scanned again.
"""

from stresstest.model import Message
from stresstest.tasks.prompt import LanguageTask, Prompt, Task
from stresstest.tasks.promptfile import load_prompts
from stresstest.tasks.taskfile import load_task, shipped_tasks

__all__ = ["LanguageTask", "Message", "Prompt", "Task", "load_prompts", "load_task", "shipped_tasks"]
