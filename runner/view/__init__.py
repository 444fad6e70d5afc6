"""A run as people look at it, read from its directory alone: live, finished or killed.

Shared by the terminal (`runner.runs`) and the report (`runner.report`): which samples to show, how
one is cut into stretches of text, what a run's figures are, and how hostile text is made visible.
"""
