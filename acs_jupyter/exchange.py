"""One request's life as pure steps: what to send, what each piece of the answer means, whether to try again.

Owns the reading of answers in all their forms (JSON, stream, error status, error inside a 200, something
foreign) and the closing of a run. It must not know sockets: the sync and the async driver
in ``client.py`` carry bytes between this machine and the network, and do nothing else.

Rules, from the service's contract: look for ``error`` before ``choices``, always; leading whitespace of
a JSON body is keepalive; a stream without ``[DONE]`` whose choices are not finished was cut; never retry after the
first token; what a refusal without tokens means for trying again is the rule of ``retrying.py``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import lenient, spending, sse, wire
from .answer_form import Form
from .errors import CATALOGUE, AcsError, ApiError, ConnectionFailed, Interrupted
from .failures import error_from_body, info_of, make_error, unchanged
from .log.events import AnyEvent, Failed, Origin, RunClosed, Served, Spent, Waited, opening
from .overhearing import Left, Pace
from .reader import Reader, Strainer
from .retrying import wait_before_retry
from .wire import Answer, CompletionRequest

BILLED = "The request may have run and been billed; it was not sent again."
KEPT_HEADERS = (wire.CLAMPED, wire.UPSTREAM_MODEL, wire.UPSTREAM_GPU)


def new_run() -> str:
    """A fresh run id: 12 hexadecimal digits."""
    return secrets.token_hex(6)


class Exchange:
    """One run: feed it heads and bytes, apply the events it returns, then look at ``error`` and ``delay``.

    ``closed`` is true once the run has ended; ``delay`` is the number of seconds to wait before the next
    attempt, or ``None`` when there is none.
    """

    def __init__(
        self,
        request: CompletionRequest,
        *,
        run: str | None = None,
        parents: list[str] | None = None,
        origin: Origin | None = None,
        added: str = "",
        request_id: str | None = None,
        retries: int = 3,
        longest_wait: float | None = None,
        redact: Callable[[str], str] = unchanged,
        reword: Callable[[str], str] = unchanged,
        strain: Callable[[], Strainer] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.request = request
        self.run = run or new_run()
        self.body = wire.encode_request(request)
        self.error: AcsError | None = None
        self.delay: float | None = None
        self.closed = False
        self.attempt = 0
        self.sent = False
        """Whether this attempt's first byte has gone out: until then it can have cost nothing."""
        self.left: Left | None = None
        """A stream that was stopped in its middle: its driver may let it hear what still comes."""
        self.ticket: Any = None
        """The budget's hold, from before the first attempt to the end; only who carries the run looks at it."""
        self._parents = parents
        self._origin = origin
        self._added = added
        self._redact, self._reword = redact, reword
        self._longest_wait = longest_wait
        self._strain = strain
        self._clock = clock
        self.strainer: Strainer | None = None
        self._own_id = request_id or f"acsj-{self.run}"
        self._retries = retries
        self._headers: Mapping[str, str] = {}
        self._served_id: str | None = None
        self._new_attempt()

    # -- before the answer ------------------------------------------------------------------------

    def open(self) -> list[AnyEvent]:
        """The events that open the run."""
        return opening(
            self.run, self.request, parents=self._parents, origin=self._origin, added=self._added,
            request_id=self.request_id,
        )  # fmt: skip

    @property
    def request_id(self) -> str:
        """The trace id this attempt is sent under."""
        return self._own_id if self.attempt <= 1 else f"{self._own_id}-{self.attempt}"

    @property
    def served_id(self) -> str | None:
        """The trace id the server answered under; ``None`` before it has."""
        return self._served_id if self._headers else None

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers; empty before there are any."""
        return self._headers

    @property
    def started(self) -> bool:
        """Whether text has come."""
        return self._reader.started

    @property
    def usage(self) -> Spent | None:
        """What the run has cost, as surely as it is known; ``None`` when nothing was spent."""
        return self._reader.usage

    @property
    def most_spent(self) -> Spent | None:
        """What a budget must count: :attr:`usage`, or where that is a guess the most it can have been."""
        return spending.most(self.request, self._reader, self.left.ahead if self.left else None)

    @property
    def tells_on_leave(self) -> bool:
        """Whether the server has promised to tell what a stream has cost that is left."""
        return self._headers.get(wire.ON_LEAVE) == "usage"

    @property
    def answered_by(self) -> str | None:
        """The model that answered, by the name the server uses for it."""
        return self._reader.checkpoint

    @property
    def told_not_to_retry(self) -> bool:
        """Whether the server said that sending this again is of no use."""
        return self._headers.get(wire.SHOULD_RETRY, "").lower() == "false"

    def counted(self, prompt: int) -> tuple[int, int]:
        """Prompt and completion tokens of one of the prompts, as far as the server's running counts tell them."""
        return self._reader.counted(prompt)

    def begin(self) -> dict[str, str]:
        """Start an attempt; returns the headers that belong to it."""
        if self.attempt:
            self._new_attempt()
        self.attempt += 1
        self.delay = None
        self.error = None
        return {
            "content-type": "application/json",
            "accept": "text/event-stream" if self.request.streamed else "application/json",
            wire.REQUEST_ID: self.request_id,
        }

    def sending(self) -> None:
        """The first byte goes out."""
        self.sent = True

    # -- the answer -------------------------------------------------------------------------------

    def head(self, status: int, headers: Mapping[str, str]) -> list[AnyEvent]:
        """The status line and headers arrived."""
        self._status, self.sent = status, True
        self._headers = {name.lower(): self._redact(value) for name, value in headers.items()}
        kept = {name: self._redact(headers[name]) for name in KEPT_HEADERS if name in headers}
        self._served_id = self._redact(headers.get(wire.REQUEST_ID) or self.request_id)
        event_stream = headers.get("content-type", "").lower().startswith("text/event-stream")
        body = status >= 300 or self.strainer is not None
        self._form = Form(event_stream=event_stream and not body, fixed=body)
        return [Served(self.run, request_id=self._served_id, headers=kept)]

    def feed(self, data: bytes) -> list[AnyEvent]:
        """Body bytes arrived."""
        if self.closed or self.error is not None:
            return []
        form = self._form
        if not form.known:
            data = form.look(data)
        if form.frames is None:
            return self._buffer(data)
        events = self._read_frames(form.frames.feed(data))
        self._pace.note(self._clock(), self._reader.made)
        return events

    def end(self) -> list[AnyEvent]:
        """The body is complete."""
        if self.closed:
            return []
        if self.error is not None:
            return self._fail()
        if self._form.frames is not None:
            events = self._read_frames(self._form.frames.flush(), last=True)
            if self.closed:
                return events
            if self.error is None:
                events += self._stream_ended()
            return events + (self._fail() if self.error is not None else [])
        return self._body_ended()

    def unreachable(self, reason: str) -> list[AnyEvent]:
        """No connection could be made: nothing was sent, so trying again costs nothing."""
        self.error = ConnectionFailed(f"The server cannot be reached ({reason}).")
        return self._fail(may_retry=True)

    def lost(self, reason: str) -> list[AnyEvent]:
        """The connection broke after the request was sent. Whether it ran is not known: never sent again."""
        if self.closed:
            return []
        self._may_have_run = True
        if self.error is None:
            if self._reader.ran:
                self.error = Interrupted(f"The answer was cut off ({reason}).", request_id=self._served_id)
            else:
                self.error = ConnectionFailed(
                    f"The connection broke before the answer ({reason}).",
                    advice=BILLED,
                    request_id=self.request_id,
                )
        return self._fail()

    def stop(self) -> list[AnyEvent]:
        """The user stopped it: what came stays, with the usage known so far."""
        if self.closed:
            return []
        self.closed = True
        # Sent and not refused: the prompt may be billed though nothing came. A refusal being waited out is moot.
        self._may_have_run = self.sent and self.error is None
        self.error = None
        events = [*self._estimate(), RunClosed(self.run, "stopped")]
        if self._may_have_run and self._form.frames is not None:
            self.left = Left(self._reader, self._form, self._pace, self._clock)
        return events

    # -- inside -----------------------------------------------------------------------------------

    def _new_attempt(self) -> None:
        self._reader = Reader(
            self.run, self.request, parents=None if self._added else self._parents, redact=self._redact
        )
        self._form = Form(event_stream=False)
        self.strainer = self._strain() if self._strain else None
        self._status, self.sent = 0, False
        self._headers = {}
        self._served_id = self.request_id
        self._pieces: list[bytes] = []
        self._only_space = True
        self._may_have_run = False
        self._waited = False
        self._pace = Pace()

    def _buffer(self, data: bytes) -> list[AnyEvent]:
        self._pieces.append(self._strained(data))
        if self.error is not None or not self._only_space or self._status >= 400:
            return []
        self._only_space = not data.strip()
        if self._only_space and not self._waited:
            self._waited = True
            return [Waited(self.run, "the model is starting")]
        return []

    def _strained(self, data: bytes | None) -> bytes:
        """What the usual reader gets of a body's bytes, or (``None``) at its end."""
        if self.strainer is None or self._status >= 300:
            return data or b""
        try:
            return self.strainer.end() if data is None else self.strainer.feed(data)
        except ValueError as problem:
            self.error = self._unreadable(str(problem))
            return b""

    def _read_frames(self, frames: list[bytes | sse.Comment], *, last: bool = False) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        read, decode = self._reader.read, wire.decode_answer
        for frame in frames:
            if isinstance(frame, sse.Comment):
                if not self._reader.started:
                    events.append(Waited(self.run, self._redact(frame.text)))
                continue
            if frame == sse.DONE:
                events += self._complete("The stream says it is done")
                break
            try:
                try:
                    answer = decode(frame)
                except (ValueError, RecursionError):
                    answer = lenient.read_answer(frame)
                if answer.choices is None and answer.error is None:
                    answer = lenient.read_answer(frame)  # it may be an error in another server's shape
                if answer.error is not None:
                    self.error = self._api_error(answer)
                    break
                read(answer, events)
            except (ValueError, IndexError, RecursionError) as error:
                if last:
                    break  # a frame that was cut: what was whole decides
                self.error = Interrupted(
                    f"The stream holds a frame that cannot be read ({error}).", request_id=self._served_id
                )
                break
        return events

    def _stream_ended(self) -> list[AnyEvent]:
        return self._complete("The stream ended early")

    def _complete(self, what: str) -> list[AnyEvent]:
        """Close the run if every choice has its finish reason; else it is an interrupted one."""
        if not self._reader.unfinished:
            return self._close()
        count = f"{len(self._reader.unfinished)} of {self.request.choice_count} choices"
        self.error = self._unreadable(f"{what}, but {count} did not finish.")
        return []

    def _body_ended(self) -> list[AnyEvent]:
        self._pieces.append(self._strained(None))
        if self.error is not None:
            return self._fail()
        raw = b"".join(self._pieces).strip()
        if self._status >= 300:
            self.error = self._status_error(raw)
            return self._fail()
        events: list[AnyEvent] = []
        try:
            answer = lenient.decode_answer(raw)
            if answer.error is not None:
                self.error = self._api_error(answer)
            elif answer.choices is None:
                self.error = self._unreadable("The answer holds neither choices nor an error.")
            else:
                self._reader.read_body(answer, events)
                events += self._complete("The answer is whole")
        except (ValueError, IndexError, RecursionError):
            what = "is not what a completion looks like" if raw else "is empty"
            self.error = self._unreadable(f"The answer {what}.")
        return events + (self._fail() if self.error is not None else [])

    def _unreadable(self, what: str) -> Interrupted:
        self._may_have_run = True
        return Interrupted(what, request_id=self._served_id)

    def _close(self) -> list[AnyEvent]:
        self.closed = True
        return [*self._estimate(), RunClosed(self.run, "done")]

    def _fail(self, *, may_retry: bool = False) -> list[AnyEvent]:
        assert self.error is not None
        error = self.error.redacted(self._redact).reworded(self._reword)
        if (isinstance(error, ApiError) or may_retry) and not self._reader.ran:
            self.delay = wait_before_retry(
                error,
                self._headers,
                attempt=self.attempt,
                retries=self._retries,
                longest=self._longest_wait,
            )
        if self.delay is not None:
            return [Waited(self.run, f"{error.code}: trying again in {self.delay:.0f} s")]
        self.closed = True
        cut = isinstance(error, Interrupted) or self._reader.ran
        failed = Failed(
            self.run,
            error.code,
            error.message,
            getattr(error, "status", None),
            error.request_id,
            bool(getattr(error, "retryable", False)),
        )
        estimate = self._estimate() if cut or self._may_have_run else []
        return [failed, *estimate, RunClosed(self.run, "interrupted" if cut else "failed")]

    def _estimate(self) -> list[AnyEvent]:
        """Without any usage from the server: count what was seen, and say that it is an estimate."""
        reader = self._reader
        if reader.usage is not None or not (reader.ran or self._may_have_run):
            return []
        reader.usage = spending.likely(self.request, reader)
        return [reader.usage]

    def _api_error(self, answer: Answer) -> ApiError:
        info = answer.error
        if not isinstance(info, wire.ErrorInfo):
            info = info_of(info) or wire.ErrorInfo()
        error = make_error(
            info,
            status=self._status if self._status >= 400 else None,
            request_id=answer.request_id or self._served_id,
            headers=self._headers,
        )
        if self._status < 300 and error.status >= 500 and info.code not in CATALOGUE:
            self._may_have_run = True  # a refusal of the service has a code; what this is nobody can tell
            error.hint = BILLED
        return error

    def _status_error(self, raw: bytes) -> ApiError:
        error = error_from_body(self._status, self._headers, raw, self._served_id, self._redact)
        if not error.own and (self._status >= 500 or self._status == 408):
            # A gateway's: what stands behind it may have worked all the while, and been paid.
            self._may_have_run, error.retryable, error.hint = True, False, BILLED
        return error
