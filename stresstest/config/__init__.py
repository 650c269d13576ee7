"""Settings (command line, environment, TOML file, defaults) and project files."""
