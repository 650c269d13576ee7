"""One package per command, with its command, workflow, document and console."""
