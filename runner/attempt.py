"""One process's work on a run, from entering its directory to leaving it: the stages in order.

    tokenizer and profile -> world check -> [server starts | plan] -> probe -> canary -> generate
    -> gates -> the end        (a plan that is there comes first: it may owe nothing)

Whatever ends it, the open shard is sealed, run.json says how it stands, the server is gone and
tracking knows. Exit codes: runner.errors.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, closing, suppress
from typing import Any

import msgspec
from rich.console import Console

from runner.conclusion import check, conclude
from runner.config import Prepare
from runner.display import Display
from runner.ending import summarize
from runner.engines.base import Engine
from runner.engines.merging import merge_infos
from runner.engines.opening import open_engine
from runner.errors import Enough, Interrupted, RunnerError
from runner.flow import Flow, most_in_flight
from runner.gpuwatch import GpuWatch
from runner.ledger import count
from runner.mirror import log_end, log_start
from runner.model import RunModel, expected_of
from runner.notify import EVENT_OF_STATUS, Notifier
from runner.performance import Spent, measure
from runner.plan import make_plan
from runner.preflight import limits_of, lines, narrowed, refuse
from runner.provenance import collect, settings_yaml
from runner.recorder import Recorder
from runner.records import RunStatus
from runner.render import Tokenizer
from runner.resolve import Resolved, model_facts
from runner.reuse import take_over
from runner.rundir import RunState, append_line, replace_file
from runner.selection import read_request
from runner.sending import Sending
from runner.serverfacts import describe, endpoint_lines, endpoint_table, keep
from runner.servers.base import Endpoint
from runner.serving import Serving
from runner.shards.layout import disk_error
from runner.sharing import Shared
from runner.space import check_space
from runner.standing import Standing, outcome_of_gates
from runner.stopping import Stop
from runner.tracking import Tracker, default_uri, open_tracker
from runner.tracking.masking import mask_text
from runner.tracking.sweep import PARENT_ENV, name_in_sweep
from runner.validate import Judge
from runner.world import check_world, flags_world, server_world, weight_versions

ONLINE = "online"
"""The verdict set that a run's own counts follow."""


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
        self.standing = Standing(resolved.run, state)
        self.folder = self.rundir.attempt(self.standing.state.attempts)
        self.display = Display(console, self.folder / "log.txt")
        self.stop = Stop(self.display.say)
        self.notifier = Notifier(self.config.notify, self.rundir.path, say=self.display.say)
        self._judge: Judge | None = None
        self._decoder: Tokenizer | None = None
        self._limits = limits_of(self.config)
        self._flow = Flow(self.config.client)
        self._spent = Spent()
        self._gpu = GpuWatch()

    def run(self) -> int:
        """Work, and end in order whatever happens. Gives the exit code."""
        with self.display:
            try:
                self._enter()
                code = self.shared.run(self._work())
                self.standing.save(**outcome_of_gates(code))
            except RunnerError as error:
                code = self._stopped(error)
            except OSError as error:  # whatever file it was: what is durable stays, and continues
                code = self._stopped(disk_error(error, self.rundir.path, "go on"))
            except BaseException as error:
                self.standing.save(
                    status=RunStatus.FAILED, reason=f"{type(error).__name__}: {error}"
                )
                raise
            finally:
                self._notify_end()
        recorder = self.standing.recorder
        stats = recorder.stats if recorder is not None else None
        summarize(self.console, self.rundir, self.standing.state, stats)
        return code

    def _stopped(self, error: RunnerError) -> int:
        """Tell of an end that was not the run's own; gives its exit code."""
        try:
            self.standing.save(**self.standing.outcome_of(error))
        except OSError as full:
            self.display.say(f"run.json could not be replaced: {full.strerror}")
        self.display.say(str(error) if isinstance(error, Enough) else f"stopped: {error}")
        return error.exit_code

    def _notify_end(self) -> None:
        state = self.standing.state
        self.notifier.send(
            EVENT_OF_STATUS.get(state.status, "failed"),
            status=state.status.value,
            reason=state.reason,
            counts=msgspec.to_builtins(state.counts),
        )
        self.notifier.close()

    def _enter(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(
            self.folder / "overrides.txt", mask_text("\n".join(self.resolved.overrides)).encode()
        )
        text = settings_yaml(self.config).encode()
        for path in (self.folder / "config.yaml", self.rundir.config_yaml):
            replace_file(path, text)
        provenance = msgspec.json.format(msgspec.json.encode(collect()), indent=2)
        for path in (self.folder / "provenance.json", self.rundir.provenance_json):
            replace_file(path, provenance)
        self.standing.save()
        verb = "continuing" if self.standing.state.attempts > 1 else "new run"
        self.display.say(f"{verb}: {self.rundir.path}")

    async def _work(self) -> int:
        with self.stop.on_signals(), self._tracker() as tracker, self.standing.heartbeat():
            log_start(tracker, self.resolved, self.standing.state, self.folder)
            self.standing.mlflow_run_id = lambda: tracker.mlflow_run_id
            try:
                with closing(self._open_model()) as model:
                    code = await self._stages(model, tracker)
            except Enough as enough:
                # Tracking has no word for "as much as was asked for": it is no interruption.
                self._leave(tracker, RunStatus.DONE, **self.standing.outcome_of(enough))
                raise
            except RunnerError as error:
                self._leave(tracker, **self.standing.outcome_of(error))
                raise
            self._leave(tracker, **outcome_of_gates(code))
            return code

    def _leave(self, tracker: Tracker, told: RunStatus | None = None, **outcome: Any) -> None:
        """The end, as run.json and the report tell it, and tracking too unless it is `told`
        another."""
        if self._flow.meter.began is not None:
            now_s, cost = time.monotonic(), self.config.cost
            made = measure(self._flow.meter, self._spent, self._gpu, cost, now_s=now_s)
            outcome["performance"] = msgspec.to_builtins(made)
            text = msgspec.json.format(msgspec.json.encode(made), indent=2)
            replace_file(self.folder / "performance.json", text)
        self.standing.save(**outcome)
        recorder = self.standing.recorder
        stats = recorder.stats if recorder is not None else None
        log_end(
            tracker,
            self.rundir,
            self.standing.state,
            stats,
            decoder=self._decoder,
            say=self.display.say,
        )
        tracker.finish(told or self.standing.state.status)

    def _tracker(self) -> AbstractContextManager[Tracker]:
        tracking = self.config.tracking
        return open_tracker(
            kind=tracking.kind.value,
            run_dir=self.rundir.path,
            uri=tracking.uri or default_uri(self.rundir.path.parent.parent),
            experiment=tracking.experiment,
            run_name=name_in_sweep(self.resolved.overrides, otherwise=self.standing.state.run_id),
            parent_run_id=os.environ.get(PARENT_ENV, ""),
            flush_timeout_s=tracking.flush_timeout_s,
            say=self.display.say,
        )

    def _open_model(self) -> RunModel:
        """The model, checked against the run's world, its tokenizer kept in the run."""
        files = self.resolved.model
        model = RunModel(self.config, files, self.shared.model(self.config, files))
        before = self.standing.state.world
        self._check_world(model.world | flags_world(self.config.server))
        if not self.rundir.profile_json.is_file() or self.standing.state.world != before:
            model.keep_in(self.rundir)
        self._decoder = model.tokenizer
        return model

    def _check_world(self, now: dict[str, str]) -> None:
        """Refuse to go on in another world; keep what is new of it, and what was accepted."""
        accepted = check_world(self.standing.state.world, now, self.config.resume.accept)
        for change in accepted:
            append_line(self.folder / "accepted.jsonl", change)
            self.display.say(f"accepted: {change.name} was {change.was}, is {change.now}")
        self.standing.save(world=self.standing.state.world | now)

    async def _stages(self, model: RunModel, tracker: Tracker) -> int:
        if self.config.prepare is Prepare.only:
            await self._plan(model)
            raise Enough(
                "Prepared: the plan is made, nothing was started or sent (prepare=only).",
                next_step="the same command without prepare=only goes on",
            )
        is_planned = read_request(self.rundir) is not None
        if is_planned:  # what it owes decides whether a server is needed
            await self._plan(model)
            if not self._owes():
                self.display.say("nothing is owed: no server is started")
                await self._generate(model, None)
                return self._check_gates()
        async with self._serving(model) as serving:
            # A new plan is made while the server loads: both may take minutes.
            starting = asyncio.ensure_future(self._start(serving, model))
            try:
                if not is_planned:
                    await self._plan(model)
                await self._generate(model, lambda s: s.send_all(serving, starting, tracker))
            finally:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
        return self._check_gates()

    def _owes(self) -> bool:
        counts = self.standing.state.counts
        return bool(counts.pending or (self.config.resume.retry_failed and counts.failed))

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
            limits=self._limits,
            progress=progress,
        )
        for line in lines(summary):
            self.display.say(line)
        refuse(summary, config.prompts.stop_on)
        counts = await asyncio.to_thread(
            count, self.rundir, ONLINE, max_attempts=config.client.retry.max_attempts
        )
        self.standing.save(counts=counts)
        if counts.pending:
            warning = await asyncio.to_thread(check_space, self.rundir, config, self.standing.state)
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
            first_launch=self.standing.state.launches + 1,
        ) as server:
            serving = Serving(
                server,
                engine,
                self.stop,
                say=self.display.say,
                on_launch=lambda launch: self.standing.save(launches=launch),
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

    def _know_weights(self) -> None:
        if self._judge is not None:
            self._judge.weight_versions = weight_versions(self.standing.state.world)

    async def _keep_facts(self, serving: Serving) -> None:
        """What answers, into the launch's folder and provenance."""
        launch_dir = self.folder / "launches" / f"{serving.launch:02d}"
        infos = await serving.infos()
        self._check_world(server_world(infos.values()))
        self._know_weights()
        if infos:
            self._limits = narrowed(self._limits, merge_infos(infos))
        about = await asyncio.to_thread(describe, self.config.server, infos, launch_dir)
        provenance = [self.folder / "provenance.json", self.rundir.provenance_json]
        keep(about, launch_dir=launch_dir, provenance=provenance)

    async def _generate(
        self, model: RunModel, send: Callable[[Sending], Awaitable[None]] | None
    ) -> None:
        """Everything between an open recorder and its end; `send` None where nothing is owed."""
        judge = Judge(
            self.resolved.validators,
            model.profile,
            model.mode,
            tokenizer=model.tokenizer,
            expected=expected_of(self.config),
        )
        self._judge = judge
        self._know_weights()
        with Recorder(
            self.rundir,
            judge,
            ONLINE,
            max_attempts=self.config.client.retry.max_attempts,
            retry_failed=self.config.resume.retry_failed,
        ) as recorder:
            recorder.attach(asyncio.get_running_loop())
            self.standing.recorder = recorder
            try:
                for taken in take_over(
                    self.rundir, self.config, self.standing.state, recorder.accept
                ):
                    append_line(self.folder / "reused.jsonl", taken)
                    self.display.say(str(taken))
                    await recorder.settle()
                if recorder.counts.pending and send is not None:
                    sending = Sending(
                        self.config,
                        self.rundir,
                        self.folder,
                        self.standing,
                        recorder,
                        model,
                        judge,
                        flow=self._flow,
                        spent=self._spent,
                        gpu=self._gpu,
                        stop=self.stop,
                        display=self.display,
                        limits=lambda: self._limits,
                    )
                    await send(sending)
            finally:
                with suppress(RunnerError):
                    await recorder.settle()
                self.standing.settled()

    def _check_gates(self) -> int:
        recorder = self.standing.recorder
        if recorder is None:
            return 0
        findings = conclude(self.rundir, ONLINE, self._judge) if self._judge is not None else []
        stats = recorder.stats
        gates = check(self.config.gates, stats, findings, say=self.display.say)
        self.standing.save(gates={gate.name: msgspec.to_builtins(gate) for gate in gates})
        return 3 if any(gate.failed for gate in gates) else 0
