"""An attempt's figures from its meter: by hand."""

import pytest

from runner.config import Cost
from runner.gpuwatch import GpuLook, GpuWatch
from runner.meter import Meter
from runner.performance import Spent, figures, lines, measure, read_performance
from tests.test_meter import Clock, answer, play


def spent(began_s: float = 80.0, **seconds: float) -> Spent:
    made = Spent()
    made.began_s = began_s
    made.seconds.update(seconds)
    return made


def finished() -> Meter:
    """4 in flight from 100 s, an answer of 10 tokens a second, the last request sent at 110 s."""
    meter, clock = play(10, width=4)
    meter.exhaust()
    for _ in range(4):
        clock.now_s += 2.0
        meter.answered(answer(10), 4.0)
        meter.back()
    meter.end()
    return meter


def test_speeds_are_those_of_the_steady_window() -> None:
    made = measure(finished(), spent(), GpuWatch(), Cost(), now_s=120.0)
    assert made.steady_s == 6.0
    assert made.output_tokens_per_s == 10.0
    assert made.prompt_tokens_per_s == 7.0
    assert made.requests_per_s == 1.0
    assert made.in_flight == pytest.approx(4.0)
    assert made.cached_share == pytest.approx(3 / 7)
    assert made.output_tokens == 140


def test_time_that_brought_nothing_is_told_by_name() -> None:
    made = measure(finished(), spent(start=12.0, canary=3.0), GpuWatch(), Cost(), now_s=120.0)
    assert made.lost_s == {"start": 12.0, "canary": 3.0, "warm_up": 4.0, "tail": 8.0}
    assert made.held_s == 40.0


def test_quantiles_are_in_seconds() -> None:
    made = measure(finished(), spent(), GpuWatch(), Cost(), now_s=120.0)
    assert made.latency is not None
    assert (made.latency.p50_s, made.latency.p99_s) == (4.0, 4.0)
    assert made.first_token is not None
    assert made.first_token.p50_s == 0.25


def test_cost_counts_all_the_time_that_the_gpus_were_held() -> None:
    made = measure(finished(), spent(), GpuWatch(), Cost(gpu_hour=9.0, gpus=2), now_s=120.0)
    assert made.gpu_hours == pytest.approx(2 * 40 / 3600)
    assert made.cost == pytest.approx(0.2)
    assert made.cost_per_billion_output_tokens == pytest.approx(0.2 / 140 * 1e9)
    assert made.output_tokens_per_s_per_gpu == 5.0


def test_the_machines_gpus_count_unless_the_config_says_how_many() -> None:
    gpu = GpuWatch()
    gpu.add(GpuLook(gpus=8, power_w=4000.0, memory_mib=8.0, load=0.9))
    assert measure(finished(), spent(), gpu, Cost(), now_s=120.0).gpus == 8
    assert measure(finished(), spent(), gpu, Cost(gpus=4), now_s=120.0).gpus == 4


def test_without_a_price_or_a_gpu_there_is_no_cost() -> None:
    made = measure(finished(), spent(), GpuWatch(), Cost(gpu_hour=9.0), now_s=120.0)
    assert (made.gpu_hours, made.cost, made.currency) == (None, None, "")


def test_a_run_without_a_steady_window_has_no_speed() -> None:
    meter, _ = play(2, width=4)
    meter.exhaust()
    meter.end()
    made = measure(meter, spent(), GpuWatch(), Cost(), now_s=120.0)
    assert made.output_tokens_per_s is None
    assert ("steady", "too short for a steady window") in lines(made)
    assert made.lost_s["warm_up"] == 2.0


def test_a_run_that_is_stopped_is_steady_up_to_its_end() -> None:
    meter, clock = play(10, width=4)
    clock.now_s += 4.0
    meter.end()
    made = measure(meter, spent(), GpuWatch(), Cost(), now_s=115.0)
    assert made.steady_s == 10.0
    assert "tail" not in made.lost_s


def test_an_attempt_that_sent_nothing_can_be_measured_too() -> None:
    made = measure(Meter(Clock()), spent(), GpuWatch(), Cost(gpus=1, gpu_hour=1.0), now_s=120.0)
    assert made.cost is not None
    assert made.cost_per_billion_output_tokens is None


def test_tracking_is_told_what_is_known_only() -> None:
    told = figures(measure(finished(), spent(), GpuWatch(), Cost(), now_s=120.0))
    assert told["speed/output_tokens_per_s"] == 10.0
    assert "speed/cost" not in told
    assert all(isinstance(value, float) for value in told.values())


def test_a_run_json_of_another_version_has_no_figures() -> None:
    assert read_performance({}) is None
    assert read_performance({"held_s": "long"}) is None


def test_a_line_for_each_thing_that_is_known() -> None:
    made = measure(finished(), spent(start=1.0), GpuWatch(), Cost(gpus=2, gpu_hour=3), now_s=120.0)
    found = dict(lines(made))
    assert found["steady"].startswith("10 output tokens/s (5 per GPU), 7 prompt tokens/s")
    assert found["lost"] == "start 1.0 s, warm-up 4.0 s, tail 8.0 s of 40.0 s"
    assert "GPU hours" in found["GPU"]
