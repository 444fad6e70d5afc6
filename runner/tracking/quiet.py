"""Imports MLflow so that it neither talks on the user's terminal nor waits for minutes.

Called only where MLflow is used: in the sink's thread, in `sync`, in the sweep's parent. The import
takes seconds. Environment variables that the user has set win.
"""

import logging
import os
import warnings
from typing import Any

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # MLflow's own default waits 247 s for a server that is down. Trying again is the sink's work.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}
_LOUD = ("mlflow", "alembic", "sqlalchemy", "urllib3", "git")
_WARNING_MODULES = ("mlflow", "alembic", "sqlalchemy", "pydantic", "google", "requests")


def mlflow() -> Any:
    """The imported module, quietened. Raises ImportError when it is not installed."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in _WARNING_MODULES:
        warnings.filterwarnings("ignore", module=rf"{name}(\.|$)")
    import mlflow as imported  # takes seconds: only here, only when it is used
    import mlflow.tracking

    for logger in _LOUD:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    return imported
