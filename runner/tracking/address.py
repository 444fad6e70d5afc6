"""Tracking addresses: which are allowed, the local default, and the links into MLflow's pages."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import psutil

from runner.errors import ConfigError
from runner.tracking.masking import mask_uri

SQLITE = "sqlite:///"
SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks")

NETWORK_FILE_SYSTEMS = frozenset(
    re.findall(
        r"\S+",
        """nfs nfs3 nfs4 cifs smb3 smbfs 9p afs lustre gpfs beegfs ceph glusterfs wekafs pvfs2
        orangefs fuse.sshfs fuse.glusterfs fuse.ceph fuse.juicefs fuse.gcsfuse fuse.s3fs""",
    )
)
"""Where sqlite's file locks can't be relied on (sqlite.org/faq.html, question 5)."""


def default_uri(outputs: Path) -> str:
    """The local database beside the runs, as an absolute address."""
    return f"{SQLITE}{outputs.absolute() / 'mlflow.db'}"


def normal_uri(uri: str) -> str:
    """The address in one spelling. Raises `ConfigError` when MLflow can't use it."""
    scheme = uri.partition(":")[0].partition("+")[0].lower()
    if "://" not in uri or scheme not in SCHEMES:
        raise ConfigError(
            "the tracking address is not one that MLflow can use",
            where="tracking.uri",
            found=repr(mask_uri(uri)),
            allowed=", ".join(f"{name}://" for name in SCHEMES),
            next_step="leave it out for the local database, or name a server: http://host:5000",
        )
    path = sqlite_path(uri)
    return f"{SQLITE}{path}" if path else uri.rstrip("/")


def sqlite_path(uri: str) -> Path | None:
    """The database file of a sqlite address, absolute; None for any other address."""
    if not uri.startswith(SQLITE):
        return None
    return Path(uri.removeprefix(SQLITE)).absolute()


def mount_type(path: Path, mounts: Iterable[tuple[str, str]]) -> str:
    """The file system type of the mount that holds `path`; mounts are (mount point, type)."""
    holding = [(len(point), kind) for point, kind in mounts if path.is_relative_to(point)]
    return max(holding, default=(0, ""))[1]


def network_file_system(path: Path) -> str:
    """The type of the network file system that `path` lies on, "" when it is a local one."""
    mounts = [(part.mountpoint, part.fstype) for part in psutil.disk_partitions(all=True)]
    kind = mount_type(path.resolve(), mounts)
    return kind if kind in NETWORK_FILE_SYSTEMS else ""


def run_url(uri: str, *, experiment_id: str, mlflow_run_id: str) -> str:
    """The page of one run; "" when no server is known (a local database)."""
    if not uri.startswith("http"):
        return ""
    return f"{mask_uri(uri)}/#/experiments/{experiment_id}/runs/{mlflow_run_id}"


def compare_url(uri: str, *, experiment_id: str, mlflow_run_ids: Sequence[str]) -> str:
    """The page that compares runs. For a local database: at the address of a server started on
    its default port."""
    base = mask_uri(uri) if uri.startswith("http") else "http://127.0.0.1:5000"
    runs = quote(json.dumps(list(mlflow_run_ids), separators=(",", ":")))
    experiments = quote(json.dumps([experiment_id]))
    return f"{base}/#/compare-runs?runs={runs}&experiments={experiments}"
