"""Imported by the fork server of the eight-processes test: MLflow's imports, once instead of eight
times."""

import importlib

from runner.tracking import quiet

quiet.mlflow()
importlib.import_module("mlflow.store.tracking.sqlalchemy_store")
importlib.import_module("mlflow.store.model_registry.sqlalchemy_store")
