"""One recorded answer: how it ended, its language, its verdict, its example."""
