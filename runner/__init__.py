"""rawtok: raw-token training data from language models. Start reading at `runner.run`."""

__version__ = "0.1.0"
