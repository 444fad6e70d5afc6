"""Which GPUs a server takes, and that no second one takes them too."""

import asyncio
import os
from pathlib import Path

import pytest

from runner.errors import MachineError
from runner.servers.gpulock import gpus_here, gpus_taken, held
from tests.servers.test_process import process_of

EIGHT = [str(index) for index in range(8)]
LAUNCH = ["python", "-m", "sglang.launch_server", "--model-path", "m"]


@pytest.mark.parametrize(
    ("flags", "visible", "taken"),
    [
        ("", None, "0"),
        ("--tp 8", None, "01234567"),
        ("--tensor-parallel-size=4 --base-gpu-id 4", None, "4567"),
        ("--tp-size 2 --pp-size 2", None, "0123"),
        ("--dp-size 4 --tp 2", None, "01234567"),
        ("--dp-size 8 --tp 8 --enable-dp-attention", None, "01234567"),
        ("--tp 4 --attn-dp-size 4", None, "0123"),
        ("--tp 2 --gpu-id-step 3", None, "03"),
        ("--tp 2", "6,7", "67"),
        ("--tp 1", "3, 5", "3"),
        ("--tp 2", "1,2,-1,3", "12"),
        ("--tp 2", "", ""),
        ("--tp 8 --device cpu", None, ""),
        ("--tp 8 --nnodes 2", None, "01234567"),  # unclear: all that are visible
        ("--tp 16", None, "01234567"),
        ("--tp many", "2,3", "23"),
        ("--tp 2 --gpu-id-step 0", "2,3", "23"),
    ],
)
def test_the_gpus_of_a_command_line(flags: str, visible: str | None, taken: str) -> None:
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert "".join(gpus_taken([*LAUNCH, *flags.split()], env, EIGHT)) == taken


def test_a_host_without_gpus_locks_nothing() -> None:
    assert gpus_taken([*LAUNCH, "--tp", "8"], {"CUDA_VISIBLE_DEVICES": "0"}, []) == []


def test_gpus_are_counted_by_their_device_files(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia0-caps", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpus_here(tmp_path) == ["0", "2", "10"]


def test_a_gpu_in_use_names_its_owner_and_another_is_free(tmp_path: Path) -> None:
    async def body() -> None:
        async with held(["0", "1"], owner="process 7, run A", folder=tmp_path):
            with pytest.raises(MachineError, match="GPU 1 belongs") as refused:
                async with held(["1"], owner="B", folder=tmp_path, patience_s=0.0):
                    pass
            assert "process 7, run A" in str(refused.value)
            async with held(["2"], owner="B", folder=tmp_path, patience_s=0.0) as locks:
                assert len(locks) == 1
        async with held(["1"], owner="B", folder=tmp_path, patience_s=0.0):
            assert (tmp_path / "rawtok-gpu-1.lock").read_text() == "B"

    asyncio.run(body())


def test_one_that_is_about_to_let_go_is_waited_for(tmp_path: Path) -> None:
    async def body() -> None:
        first = held(["0"], owner="A", folder=tmp_path)
        await first.__aenter__()
        asyncio.get_running_loop().call_later(
            0.3, asyncio.ensure_future, first.__aexit__(*[None] * 3)
        )
        async with held(["0"], owner="B", folder=tmp_path, patience_s=20.0):
            assert (tmp_path / "rawtok-gpu-0.lock").read_text() == "B"

    asyncio.run(body())


def test_a_lock_lasts_as_long_as_the_server_that_inherited_it(tmp_path: Path) -> None:
    async def take(patience_s: float) -> None:
        async with held(["0"], owner="B", folder=tmp_path, patience_s=patience_s):
            pass

    async def body() -> None:
        async with held(["0"], owner="A", folder=tmp_path) as locks:
            process = process_of(tmp_path, held=locks)
            await process.start()
        with pytest.raises(MachineError, match="GPU 0 belongs"):
            await take(0.0)
        await process.stop()
        await take(5.0)

    asyncio.run(body())


def test_a_lock_file_is_for_every_user(tmp_path: Path) -> None:
    async def body() -> None:
        before = os.umask(0o077)
        try:
            async with held(["0"], owner="A", folder=tmp_path):
                pass
        finally:
            os.umask(before)

    asyncio.run(body())
    assert (tmp_path / "rawtok-gpu-0.lock").stat().st_mode & 0o777 == 0o666


def test_a_lock_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "rawtok-gpu-0.lock").mkdir()

    async def body() -> None:
        async with held(["0"], owner="A", folder=tmp_path):
            pass

    with pytest.raises(MachineError, match="lock of a GPU cannot be opened"):
        asyncio.run(body())
