"""One adapter a log format, in the ordered lists of `registry`."""
