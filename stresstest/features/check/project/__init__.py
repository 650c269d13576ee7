"""`stresstest check` of a project file: every cell against its baseline and budgets."""
