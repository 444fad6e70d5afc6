"""`client.concurrency: auto`: from what the server shows to how many requests may be in flight.

One pure function, `decide`: the state so far and one more reading give the next state. A server is
full when requests wait in its queue, when its KV cache is full, or when more requests bring no more
tokens per second, whichever comes first; more than that only makes answers late, or makes the
server take requests back and do their work twice (retractions). In this order of urgency:

    many retractions                        fewer at once, then patience: samples tell of it late
    a lasting queue                         as many as run, and a few more
    no queue, room in the cache             more, as fast as the cache will bear when requests ripen
    more brought nothing                    back to what there was; tried again after a while
    much slower than before                 fewer, on trial

Readings may be late and wrong by a tenth. Nothing is decided before the server's own count of
requests has caught up with ours, what is compared is an average of several looks, and a number that
grew is given the time that an answer takes before the cache is believed. What a server does not
tell is left out: with none of its signals, tokens per second alone steer.
"""

from statistics import fmean, median

import msgspec

from runner.records import NOT_TOLD, Record

FIRST = 16
"""In flight at the start: enough for a first impression, harmless to any server."""
RECENT = 4
"""Looks that are averaged."""
PATIENCE = 3
"""Times as many looks are given to a change before it is called useless."""
SLACK = 1 / 8
"""Waiting requests wanted, as a share of the running ones: an answer's slot is taken at once."""
TARGET = 0.95
"""Share of the KV cache to grow into (SGLang's own advice: above 0.9)."""
TOLERATED = 0.2
"""Retractions for each finished sample that cost less than the emptier cache without them: what is
taken back is only prefilled again, which is some ten times cheaper than it was to generate."""
FAST, SLOW = 2.0, 1.25
"""Growth at the start and after any sign of being full; `FAST` again after `EAGER` successes."""
EAGER = 3
WORTH = 0.2
"""Of twice as many requests, this share more tokens per second at least, or it was too many."""
LEAST_GAIN = 0.03
"""Fewer requests must bring this much to be kept."""
HOLD = 12
"""Looks before something that did not work is tried again; twice as many after each failure, up to
`LONGEST_HOLD`."""
LONGEST_HOLD = 200
FALLEN = 0.8
"""Slower than this share of what the same number reached: something changed."""


class Reading(Record, frozen=True, kw_only=True):
    """One look. `in_flight` is ours; `running`, `queued`, `usage` (of the KV cache, 0 to 1) and
    `tokens_per_s` are the server's. `finished` samples came since the last look, and told of
    `retracted` retractions; `latency_s` is what an answer takes, 0 before there were any."""

    at_s: float
    in_flight: int
    running: int = NOT_TOLD
    queued: int = NOT_TOLD
    usage: float | None = None
    tokens_per_s: float | None = None
    finished: int = 0
    retracted: int = 0
    latency_s: float = 0.0


class Trial(Record, frozen=True, kw_only=True):
    """A change whose worth is not known yet: from which number and speed."""

    number: int
    tokens_per_s: float


class Pacing(Record, frozen=True, kw_only=True):
    """The state. `number` may be in flight now; `why` says what the last reading did to it."""

    number: int = FIRST
    most: int = 1024
    why: str = "start"
    factor: float = FAST
    successes: int = 0
    changed_s: float = 0.0
    looks: int = 0
    """Since the number changed."""
    trial: Trial | None = None
    reached: float = 0.0
    """Tokens per second that the number reached when it was last found good."""
    ceiling: int = 0
    """Not to be reached again before `hold` more looks; 0: none."""
    hold: int = HOLD
    held: int = 0
    fewer_next: bool = False
    patient_until_s: float = 0.0
    finished: int = 0
    retracted: int = 0
    """Since the last look at which enough had finished to tell."""
    recent: tuple[Reading, ...] = ()
    """Since the number changed, at most `RECENT`."""


def decide(state: Pacing, reading: Reading) -> Pacing:
    """The next state; its `number` is what may be in flight until the next look."""
    state = _seen(state, reading)
    if reading.at_s >= state.patient_until_s and _taken_back(state):
        return _fewer(state, reading)
    if len(state.recent) < RECENT or not _caught_up(state):
        return _stay(state, "waiting to see")
    waiting = _queued(state)
    if state.trial is not None:
        state = _judged(state, reading, is_full=bool(waiting))
        if state.trial is not None or state.looks == 0:
            return state
    if waiting:
        return _trimmed(state, reading, waiting)
    if state.looks >= 2 * RECENT and _speed(state) < FALLEN * state.reached:
        state = msgspec.structs.replace(state, hold=HOLD)
        return _tried(state, reading, round(state.number / SLOW), "slower than before")
    return _more(state, reading)


def _seen(state: Pacing, reading: Reading) -> Pacing:
    enough = state.finished >= max(8, state.number // 4)
    return msgspec.structs.replace(
        state,
        recent=(*state.recent, reading)[-RECENT:],
        looks=state.looks + 1,
        held=state.held + 1,
        ceiling=state.ceiling if state.held < state.hold else 0,
        finished=reading.finished + (0 if enough else state.finished),
        retracted=reading.retracted + (0 if enough else state.retracted),
    )


def _stay(state: Pacing, why: str) -> Pacing:
    return msgspec.structs.replace(state, why=why)


def _moved(state: Pacing, reading: Reading, number: int, why: str) -> Pacing:
    number = max(1, min(state.most, number))
    if number == state.number:
        return _stay(state, why)
    return msgspec.structs.replace(
        state, number=number, why=why, changed_s=reading.at_s, looks=0, recent=(), trial=None
    )


def _taken_back(state: Pacing) -> bool:
    """Too much work is done twice."""
    return state.retracted > max(2.0, TOLERATED * max(state.finished, 8))


def _fewer(state: Pacing, reading: Reading) -> Pacing:
    """What runs is what fits; those that wait hold no cache. Then not again for an answer's time:
    those that finish until then were taken back before."""
    known = [r.running for r in state.recent if r.running != NOT_TOLD]
    really = min([state.number, *([round(fmean(known))] if known else [])])
    storm = state.retracted > state.finished // 2
    number = min(round(really * (0.8 if storm else 0.95)), state.number - 1)
    return msgspec.structs.replace(
        _moved(state, reading, number, "requests are taken back"),
        factor=SLOW,
        successes=0,
        ceiling=really if reading.usage is None else 0,
        held=0,
        finished=0,
        retracted=0,
        patient_until_s=reading.at_s + reading.latency_s,
    )


def _caught_up(state: Pacing) -> bool:
    """The senders use the number, and the server's count shows it (or, where it does not count,
    twice the looks were given to it)."""
    used = fmean(r.in_flight for r in state.recent) >= 0.9 * state.number
    counts = [r.running + max(0, r.queued) for r in state.recent if r.running != NOT_TOLD]
    shown = fmean(counts) >= 0.85 * state.number if counts else state.looks >= PATIENCE * RECENT
    return used and shown


def _speed(state: Pacing) -> float:
    speeds = [r.tokens_per_s for r in state.recent if r.tokens_per_s is not None]
    return fmean(speeds) if speeds else 0.0


def _queued(state: Pacing) -> float | None:
    queued = [r.queued for r in state.recent if r.queued != NOT_TOLD]
    return median(queued) if queued else None


def _judged(state: Pacing, reading: Reading, *, is_full: bool) -> Pacing:
    """Was the change good? A state with `looks` 0 went back, one that keeps its trial must wait:
    more requests cost prefill first. Where a queue shows that the server is full, the queue decides
    from here on."""
    trial, speed = state.trial, _speed(state)
    good = msgspec.structs.replace(state, trial=None, reached=speed)
    if trial is None or trial.tokens_per_s <= 0 or is_full:
        return good
    grew = state.number > trial.number
    gain = WORTH * (state.number / trial.number - 1) if grew else LEAST_GAIN
    if speed >= trial.tokens_per_s * (1 + gain):
        successes = state.successes + 1
        factor = FAST if successes >= EAGER else state.factor
        return msgspec.structs.replace(good, successes=successes, factor=factor)
    if state.looks < PATIENCE * RECENT:
        return _stay(state, "waiting for a gain")
    return msgspec.structs.replace(
        _moved(state, reading, trial.number, "no gain: back"),
        reached=trial.tokens_per_s,
        factor=SLOW,
        successes=0,
        ceiling=state.number if grew else trial.number + 1,
        fewer_next=grew,
        hold=min(2 * state.hold, LONGEST_HOLD),
        held=0,
    )


def _trimmed(state: Pacing, reading: Reading, waiting: float) -> Pacing:
    """As many as run, and a few that wait."""
    running = fmean(r.running for r in state.recent) if reading.running != NOT_TOLD else 0.0
    slack = max(2.0, SLACK * running)
    state = msgspec.structs.replace(state, factor=SLOW, successes=0, reached=_speed(state))
    if reading.running == NOT_TOLD or waiting <= 2 * slack:
        return _stay(state, "full")
    return _moved(state, reading, round(running + slack), "a long queue")


def _more(state: Pacing, reading: Reading) -> Pacing:
    """Grow, unless the cache or a ceiling forbids; after growth brought nothing, try fewer."""
    if state.factor < FAST and state.looks < 2 * RECENT:
        return _stay(state, "waiting to see")
    if state.fewer_next and not state.ceiling:
        state = msgspec.structs.replace(state, fewer_next=False)
        return _tried(state, reading, round(state.number / SLOW), "perhaps fewer")
    factor = min(state.factor, _bearable(state, reading))
    number = min(state.most, round(state.number * factor))
    if number <= state.number or (state.ceiling and number >= state.ceiling):
        return _stay(state, "good")
    return _tried(state, reading, number, "room for more")


def _tried(state: Pacing, reading: Reading, number: int, why: str) -> Pacing:
    trial = Trial(number=state.number, tokens_per_s=_speed(state))
    return msgspec.structs.replace(_moved(state, reading, number, why), trial=trial)


def _bearable(state: Pacing, reading: Reading) -> float:
    """How many times as many the cache will hold. Requests that have just begun hold little yet, so
    before an answer's time is over they are taken to hold twice as much in the end."""
    usages = [r.usage for r in state.recent if r.usage is not None]
    if not usages:
        return FAST
    usage = max(fmean(usages), 1e-3)
    ripe = reading.latency_s > 0 and reading.at_s - state.changed_s >= reading.latency_s
    return TARGET / (usage if ripe else 2 * usage)
