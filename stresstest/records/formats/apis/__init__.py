"""What the APIs of models return and keep: bodies, batches and pages of them."""
