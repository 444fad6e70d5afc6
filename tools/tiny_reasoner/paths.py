"""Where the bundled assets lie in this repository."""

from pathlib import Path

ASSETS = Path(__file__).resolve().parents[2] / "runner" / "assets"
PROMPTS = ASSETS / "prompts"
MODEL = ASSETS / "tiny_reasoner"
