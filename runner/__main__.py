from runner.stopping import leave_at_once_on_signals

leave_at_once_on_signals()  # before the imports, which take a second

from runner.cli import main  # noqa: E402

main()
