"""`stresstest init`: a settings file for one server, model and language."""
