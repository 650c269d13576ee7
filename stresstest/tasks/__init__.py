"""Tasks and prompts: what is requested of the model.

A *task* is a TOML file: one instruction per language, which requests ``{units}`` numbered units about
``{topic}``. Topics are templates; their ``{slot}`` placeholders expand to the product of the slots, so that
n generations get n distinct prompts. A ``--prompts`` file is the user's own prompts instead.

Both files are foreign text. Placeholders are replaced literally and in one pass: nothing here is ever a
format string, and what was substituted is not scanned again.
"""

from stresstest.config.task_source import OPEN_FORM as OPEN_FORM
from stresstest.tasks.prompt import UNITS as UNITS
from stresstest.tasks.prompt import LanguageTask as LanguageTask
from stresstest.tasks.prompt import Prompt as Prompt
from stresstest.tasks.prompt import Task as Task
from stresstest.tasks.prompts_file import PromptsFile as PromptsFile
from stresstest.tasks.prompts_file import load_prompts as load_prompts
from stresstest.tasks.taskfile import load_task as load_task
from stresstest.tasks.taskfile import shipped_tasks as shipped_tasks
