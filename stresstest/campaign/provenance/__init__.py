"""Whether answers are of the server, the model and the decoding that were asked."""
