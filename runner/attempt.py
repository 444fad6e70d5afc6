"""One process's work on a run, from entering its directory to leaving it: the stages in order.

    tokenizer and profile -> world check -> [server starts | plan] -> probe -> canary -> generate
    -> gates -> the end

Whatever ends it, the open shard is sealed, run.json says how it stands, the server is gone and
tracking knows. Exit codes: runner.errors.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from typing import Any

import msgspec
from rich.console import Console

from runner.budget import WHOLE, Budget
from runner.conclusion import check, conclude
from runner.config import Prepare, to_yaml
from runner.display import Display
from runner.ending import summarize
from runner.engines.base import Engine
from runner.engines.opening import open_engine
from runner.errors import ConfigError, Enough, Interrupted, RunnerError
from runner.estimate import LEAST_WAVE, WAVE_TURNOVERS, estimate_rest, lines
from runner.flow import Flow, most_in_flight
from runner.generate import Feed, Origin, Request, Sender, requests_of
from runner.gpuwatch import GpuWatch
from runner.identity import digest_of
from runner.ledger import count, owed
from runner.mirror import log_end, log_start
from runner.model import RunModel, expected_of
from runner.monitor import Monitor
from runner.notify import EVENT_OF_STATUS, Notifier
from runner.performance import Spent, measure
from runner.permits import Permits
from runner.plan import Limits, PromptReader, make_plan, part_budgets
from runner.provenance import collect
from runner.recorder import Recorder
from runner.records import RunStatus
from runner.resolve import Resolved, model_facts
from runner.reuse import take_over
from runner.rundir import HEARTBEAT_S, RunState, Tokens, append_line, replace_file
from runner.serverfacts import describe, endpoint_lines, endpoint_table, keep
from runner.servers.base import Endpoint
from runner.serving import Serving
from runner.shards.layout import disk_error
from runner.sharing import Shared
from runner.shortcanary import ShortCanary
from runner.space import check_space
from runner.stopping import Stop
from runner.tail import rearranged
from runner.tasks import run_beside
from runner.tracking import Tracker, default_uri, open_tracker
from runner.tracking.sweep import PARENT_ENV, name_in_sweep
from runner.validate import Judge
from runner.watch import Watch
from runner.waves import Waves, open_waves, spread_first
from runner.world import check_world, flags_world, server_world

ONLINE = "online"
"""The verdict set that a run's own counts follow."""
_STATUS = {0: RunStatus.INTERRUPTED, 3: RunStatus.STOPPED_BAD_DATA, 130: RunStatus.INTERRUPTED}


class Attempt:
    """See the module. Made under the run's lock; `run` is called once."""

    def __init__(
        self, resolved: Resolved, state: RunState, console: Console, shared: Shared
    ) -> None:
        self.resolved = resolved
        self.config = resolved.config
        self.rundir = resolved.run
        self.console = console
        self.shared = shared
        self._found = state
        self.state = msgspec.structs.replace(
            state,
            status=RunStatus.RUNNING,
            reason="",
            attempts=state.attempts + 1,
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self.folder = self.rundir.attempt(self.state.attempts)
        self.display = Display(console, self.folder / "log.txt")
        self.stop = Stop(self.display.say)
        self.notifier = Notifier(self.config.notify, self.rundir.path, say=self.display.say)
        self._recorder: Recorder | None = None
        self._judge: Judge | None = None
        self._mlflow_run_id: Callable[[], str] = lambda: ""
        self._generating_since: tuple[float, int] | None = None
        self._flow = Flow(self.config.client)
        self._spent = Spent()
        self._gpu = GpuWatch()

    def run(self) -> int:
        """Work, and end in order whatever happens. Gives the exit code."""
        with self.display:
            try:
                self._enter()
                code = self.shared.run(self._work())
                self._save(status=RunStatus.DONE if code == 0 else RunStatus.GATE_FAILED)
            except RunnerError as error:
                code = self._stopped(error)
            except OSError as error:  # whatever file it was: what is durable stays, and continues
                code = self._stopped(disk_error(error, self.rundir.path, "go on"))
            except BaseException as error:
                self._save(status=RunStatus.FAILED, reason=f"{type(error).__name__}: {error}")
                raise
            finally:
                self._notify_end()
        stats = self._recorder.stats if self._recorder is not None else None
        summarize(self.console, self.rundir, self.state, stats)
        return code

    def _stopped(self, error: RunnerError) -> int:
        """Tell of an end that was not the run's own; gives its exit code."""
        try:
            self._save(**self._outcome(error))
        except OSError as full:
            self.display.say(f"run.json could not be replaced: {full.strerror}")
        self.display.say(f"stopped: {error}")
        return error.exit_code

    def _outcome(self, error: RunnerError) -> dict[str, Any]:
        """How run.json tells of an end; a refused command leaves a run's status as it was."""
        if isinstance(error, ConfigError) and self._found.attempts:
            return {"status": self._found.status, "reason": self._found.reason}
        status = _STATUS.get(error.exit_code, RunStatus.FAILED)
        return {"status": status, "reason": str(error)}

    def _notify_end(self) -> None:
        state = self.state
        self.notifier.send(
            EVENT_OF_STATUS.get(state.status, "failed"),
            status=state.status.value,
            reason=state.reason,
            counts=msgspec.to_builtins(state.counts),
        )
        self.notifier.close()

    def _enter(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / "overrides.txt", "\n".join(self.resolved.overrides).encode())
        text = to_yaml(self.config).encode()
        for path in (self.folder / "config.yaml", self.rundir.config_yaml):
            replace_file(path, text)
        provenance = msgspec.json.format(msgspec.json.encode(collect()), indent=2)
        for path in (self.folder / "provenance.json", self.rundir.provenance_json):
            replace_file(path, provenance)
        self._save()
        verb = "continuing" if self.state.attempts > 1 else "new run"
        self.display.say(f"{verb}: {self.rundir.path}")

    def _save(self, **changes: Any) -> None:
        """run.json as things stand."""
        recorder = self._recorder
        if recorder is not None:
            whole = recorder.stats.all()
            changes |= {
                "counts": recorder.counts,
                "unplanned": recorder.unplanned,
                "tokens": Tokens(prompt=whole.prompt_tokens, output=whole.output_tokens),
            }
            if self._generating_since is not None:
                since, tokens_then = self._generating_since
                now = time.monotonic()
                changes["generate_s"] = self.state.generate_s + now - since
                changes["generate_tokens"] = (
                    self.state.generate_tokens + whole.output_tokens - tokens_then
                )
                self._generating_since = now, whole.output_tokens
        if mlflow_run_id := self._mlflow_run_id():
            changes["mlflow_run_id"] = mlflow_run_id
        self.state = msgspec.structs.replace(self.state, heartbeat=time.time(), **changes)
        self.rundir.write(self.state)

    async def _work(self) -> int:
        with self.stop.on_signals(), self._tracker() as tracker, self._heartbeat():
            log_start(tracker, self.resolved, self.state, self.folder)
            self._mlflow_run_id = lambda: tracker.mlflow_run_id
            try:
                with closing(self._open_model()) as model:
                    code = await self._stages(model, tracker)
            except RunnerError as error:
                self._leave(tracker, **self._outcome(error))
                raise
            self._leave(tracker, status=RunStatus.DONE if code == 0 else RunStatus.GATE_FAILED)
            return code

    def _leave(self, tracker: Tracker, **outcome: Any) -> None:
        """The end, as run.json, the report and tracking tell it."""
        if self._flow.meter.began is not None:
            outcome["performance"] = self._performance()
        self._save(**outcome)
        stats = self._recorder.stats if self._recorder is not None else None
        log_end(tracker, self.rundir, self.state, stats, say=self.display.say)
        tracker.finish(self.state.status)

    def _performance(self) -> dict[str, Any]:
        """How fast this attempt was, also kept in its folder."""
        now_s = time.monotonic()
        made = measure(self._flow.meter, self._spent, self._gpu, self.config.cost, now_s=now_s)
        plain: dict[str, Any] = msgspec.to_builtins(made)
        text = msgspec.json.format(msgspec.json.encode(plain), indent=2)
        replace_file(self.folder / "performance.json", text)
        return plain

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """run.json is rewritten every HEARTBEAT_S, whatever the attempt is at."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(HEARTBEAT_S)
                with suppress(OSError):  # a full disk is met, and told of, by what needs it
                    self._save()

        beating = asyncio.ensure_future(beat())
        try:
            yield
        finally:
            beating.cancel()

    def _tracker(self) -> AbstractContextManager[Tracker]:
        tracking = self.config.tracking
        return open_tracker(
            kind=tracking.kind.value,
            run_dir=self.rundir.path,
            uri=tracking.uri or default_uri(self.rundir.path.parent.parent),
            experiment=tracking.experiment,
            run_name=name_in_sweep(self.resolved.overrides, otherwise=self.state.run_id),
            parent_run_id=os.environ.get(PARENT_ENV, ""),
            flush_timeout_s=tracking.flush_timeout_s,
            say=self.display.say,
        )

    def _open_model(self) -> RunModel:
        """The model, checked against the run's world, its tokenizer kept in the run."""
        model = RunModel(self.config, self.resolved.model)
        before = self.state.world
        self._check_world(model.world | flags_world(self.config.server))
        if not self.rundir.profile_json.is_file() or self.state.world != before:
            model.keep_in(self.rundir)
        return model

    def _check_world(self, now: dict[str, str]) -> None:
        """Refuse to go on in another world; keep what is new of it, and what was accepted."""
        accepted = check_world(self.state.world, now, self.config.resume.accept)
        for change in accepted:
            append_line(self.folder / "accepted.jsonl", change)
            self.display.say(f"accepted: {change.name} was {change.was}, is {change.now}")
        self._save(world=self.state.world | now)

    async def _stages(self, model: RunModel, tracker: Tracker) -> int:
        if self.config.prepare is Prepare.only:
            await self._plan(model)
            raise Interrupted("Prepared: the plan is made, nothing was sent (prepare=only).")
        async with self._serving(model) as serving:
            starting = asyncio.ensure_future(self._start(serving, model))
            try:
                await self._plan(model)
                await self._generate(model, tracker, serving, starting)
            finally:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
        return self._check_gates()

    async def _plan(self, model: RunModel) -> None:
        config = self.config

        def progress(stage: str, done: int, total: int) -> None:
            if self.stop.requested:
                raise Interrupted("Stopped while planning; the same command plans again.")
            if done % 20_000 == 0 or done == total:
                self.display.say(f"{stage}: {done:,} of {total:,} prompts")

        summary = await asyncio.to_thread(
            make_plan,
            self.rundir,
            config,
            self.resolved.parts,
            render=model.ahead,
            exclusion=self.resolved.exclusion,
            limits=Limits(
                context_length=config.model.context_length,
                max_new_tokens=config.sampling.max_new_tokens,
            ),
            progress=progress,
        )
        for line in summary.lines():
            self.display.say(line)
        counts = await asyncio.to_thread(
            count, self.rundir, ONLINE, max_attempts=config.client.retry.max_attempts
        )
        self._save(counts=counts)
        if counts.pending:
            warning = await asyncio.to_thread(check_space, self.rundir, config, self.state)
            if warning:
                self.display.say(warning)

    @asynccontextmanager
    async def _serving(self, model: RunModel) -> AsyncIterator[Serving]:
        files, config = self.resolved.model, self.config
        self._spent.begin()

        def engine(endpoint: Endpoint) -> Engine:
            return open_engine(
                config.server.engine.value,
                endpoint,
                vocab_size=model.profile.vocab_padded,
                timeout_s=config.client.request_timeout_s,
                max_connections=most_in_flight(config.client) + 4,
            )

        async with self.shared.server(
            config.server,
            model_facts(config, files),
            launches_dir=self.folder / "launches",
            first_launch=self.state.launches + 1,
        ) as server:
            serving = Serving(
                server,
                engine,
                self.stop,
                say=self.display.say,
                on_launch=lambda launch: self._save(launches=launch),
                stall_s=config.server.stall_s,
                notify=self.notifier.send,
            )
            try:
                yield serving
            finally:
                self._spent.seconds["restart"] += serving.restart_s
                await serving.close()
                stats = serving.endpoint_stats()
                replace_file(self.folder / "endpoints.json", endpoint_table(stats))
                for line in endpoint_lines(stats) if len(server.endpoints) > 1 else []:
                    self.display.say(line)

    async def _start(self, serving: Serving, model: RunModel) -> None:
        self.display.say(f"starting server {self.config.server.name}")
        start = time.monotonic()
        with self._spent.during("start"):
            await serving.start()
            sampling = msgspec.structs.replace(model.sampling, max_new_tokens=4, min_new_tokens=0)
            await serving.probe(model.probe_ids(), sampling)
            await self._keep_facts(serving)
        self.display.say(f"server is ready after {time.monotonic() - start:.1f} s")

    async def _keep_facts(self, serving: Serving) -> None:
        """What answers, into the launch's folder and provenance."""
        launch_dir = self.folder / "launches" / f"{serving.launch:02d}"
        infos = await serving.infos()
        self._check_world(server_world(infos.values()))
        about = await asyncio.to_thread(describe, self.config.server, infos, launch_dir)
        provenance = [self.folder / "provenance.json", self.rundir.provenance_json]
        keep(about, launch_dir=launch_dir, provenance=provenance)

    async def _generate(
        self,
        model: RunModel,
        tracker: Tracker,
        serving: Serving,
        starting: "asyncio.Future[None]",
    ) -> None:
        judge = Judge(
            self.resolved.validators,
            model.profile,
            model.mode,
            tokenizer=model.tokenizer,
            expected=expected_of(self.config),
        )
        self._judge = judge
        with Recorder(
            self.rundir,
            judge,
            ONLINE,
            max_attempts=self.config.client.retry.max_attempts,
            retry_failed=self.config.resume.retry_failed,
        ) as recorder:
            recorder.attach(asyncio.get_running_loop())
            self._recorder = recorder
            try:
                for taken in take_over(self.rundir, self.config, self.state, recorder.accept):
                    append_line(self.folder / "reused.jsonl", taken)
                    self.display.say(str(taken))
                    await recorder.settle()
                if recorder.counts.pending:
                    await self._send(model, tracker, serving, starting, judge)
                    await recorder.settle()
                    self._estimate(recorder)
                    self._leave_rest(recorder)
            finally:
                with suppress(RunnerError):
                    await recorder.settle()
                self._save()
                self._generating_since = None

    async def _send(
        self,
        model: RunModel,
        tracker: Tracker,
        serving: Serving,
        starting: "asyncio.Future[None]",
        judge: Judge,
    ) -> None:
        assert self._recorder is not None  # noqa: S101 - set by _generate
        sampling = model.sampling
        origin = Origin(
            run_id=self.state.run_id,
            mode=self.config.mode.name,
            sampling_digest=digest_of(msgspec.to_builtins(sampling))[:16],
            attempt=self.state.attempts,
        )
        watch = Watch(self.config.breaker, judge.expected)
        flow = self._flow
        sender = Sender(
            serving,
            self._recorder,
            sampling,
            origin,
            self.config.client,
            self.stop,
            watch,
            self._budget(),
            flow,
        )
        monitor = Monitor(
            self._recorder,
            sender,
            self.display,
            tracker,
            interval_s=self.config.tracking.interval_s,
            server_figures=serving.figures,
        )
        feed = Feed(self._requests(model, flow.permits), flow.ahead, self.stop)
        await self._until_ready(starting)
        background = [feed.fill(), serving.keep(), monitor.watch()]
        log = self.folder / "canary.jsonl"
        short = ShortCanary(model, judge, origin, self.config, log=log)
        say = self.display.say
        background += flow.background(serving.look, folder=self.folder, say=say)
        background.append(self._gpu.watch())
        opened = open_waves(serving, sender, feed, watch, short, model.tokenizer.decode, say=say)
        waves = self._waves(opened, monitor)
        await run_beside(waves, background, self._drain_limit())
        monitor.track()
        if self.stop.requested:
            raise Interrupted(
                f"{self.stop.signal}: everything finished is saved.",
                next_step="the same command continues",
            )

    def _budget(self) -> Budget:
        assert self._recorder is not None  # noqa: S101 - set by _generate
        most, parts = self.config.sampling.max_new_tokens, self.config.category.parts
        categories = self._recorder.stats.categories.items()
        return Budget(
            {WHOLE: self.config.budget.output_tokens, **part_budgets(self.config)},
            guesses={n: min(p.expected.output_tokens or most, most) for n, p in parts.items()},
            spent={name: (one.output_tokens, one.samples) for name, one in categories},
        )

    def _estimate(self, recorder: Recorder) -> None:
        """Tell what is still to come, and stop. Raises Enough."""
        if not self.config.estimate or not recorder.counts.pending:
            return
        speed = measure(
            self._flow.meter, self._spent, self._gpu, self.config.cost, now_s=time.monotonic()
        )
        made = estimate_rest(self.rundir, self.config, recorder, speed)
        if made is None:
            raise Enough("The wave was too short to estimate from.")
        replace_file(self.folder / "estimate.json", msgspec.json.encode(made))
        raise Enough(
            "\n  ".join(["Estimated; what was measured is kept.", *lines(made)]),
            next_step="the same command without estimate=true goes on",
        )

    def _leave_rest(self, recorder: Recorder) -> None:
        """All was sent, or a budget is why not."""
        left = recorder.counts.pending
        if left and (self.config.budget.output_tokens or part_budgets(self.config)):
            recorder.leave_rest()
            self.display.say(
                f"budget spent: {left:,} samples are skipped; a larger budget.output_tokens "
                "sends them"
            )

    def _requests(self, model: RunModel, permits: Permits) -> Iterator[Request]:
        assert self._recorder is not None  # noqa: S101 - set by _generate
        planned = owed(
            self.rundir,
            max_attempts=self.config.client.retry.max_attempts,
            retry_failed=self.config.resume.retry_failed,
        )
        planned = rearranged(planned, self.config, self._recorder, permits)
        count, parts = self.config.canary.count, len(self.config.category.parts)
        ordered = spread_first(planned, count, parts)
        return requests_of(ordered, PromptReader(self.rundir), model.ahead)

    async def _until_ready(self, starting: "asyncio.Future[None]") -> None:
        stopping = asyncio.ensure_future(self.stop.draining.wait())
        try:
            both: list[asyncio.Future[Any]] = [starting, stopping]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                raise Interrupted(
                    f"{self.stop.signal} while the server was starting.",
                    next_step="the same command continues",
                )
            await starting
        finally:
            stopping.cancel()

    async def _waves(self, waves: Waves, monitor: Monitor) -> None:
        with self._spent.during("canary"):
            await waves.canary(self.config.canary)
        if self._recorder is not None:
            await self._recorder.settle()  # the canary's tokens must not count as the bulk's
            self.display.say(self._recorder.echo_line)
        monitor.stage = "generating"
        with self._timed():
            if self.config.estimate:
                width = self._flow.permits.number
                await waves.some(max(LEAST_WAVE, WAVE_TURNOVERS * width))
            else:
                await waves.bulk()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """What happens inside counts as generating (run.json's generate_s)."""
        if self._recorder is not None:
            tokens = self._recorder.stats.all().output_tokens
            self._generating_since = time.monotonic(), tokens
        self._flow.meter.begin()
        try:
            yield
        finally:
            self._flow.meter.end()
            self._save()

    async def _drain_limit(self) -> None:
        await self.stop.draining.wait()
        await asyncio.sleep(self.config.shutdown.drain_s)
        self.display.say(f"drain limit of {self.config.shutdown.drain_s:.0f} s is over")

    def _check_gates(self) -> int:
        if self._recorder is None:
            return 0
        findings = conclude(self.rundir, ONLINE, self._judge) if self._judge is not None else []
        stats = self._recorder.stats
        gates = check(self.config.gates, stats, findings, say=self.display.say)
        self._save(gates={gate.name: msgspec.to_builtins(gate) for gate in gates})
        return 3 if any(gate.failed for gate in gates) else 0
