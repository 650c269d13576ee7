"""Options, streams and the steps around a measurement that the commands share."""
