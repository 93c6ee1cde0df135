"""What every error is: a code, a sentence, a word of advice.

Owns the heads of the tree and how an error is told in one line. It must not know single codes of the service.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

E = TypeVar("E", bound="AcsError")


class AcsError(Exception):
    """Anything this package raises on purpose. ``str()`` is one line: what happened and what to do."""

    code: str = "error"
    advice: ClassVar[str] = ""

    def __init__(self, message: str, *, advice: str | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id
        self.completion: Any = None
        """What had arrived before it went wrong, as a completion, when the client knows it."""
        self.job_id: str | None = None
        """The completion job it is about, if it is about one."""
        self.hint = self.advice if advice is None else advice

    def redacted(self: E, redact: Callable[[str], str]) -> E:
        """The same error with what a server said in it passed through ``redact``: it may repeat what it was sent."""
        self.message = redact(self.message)
        self.args = (self.message,)
        self.code = redact(self.code)
        if self.request_id:
            self.request_id = redact(self.request_id)
        return self

    def reworded(self: E, reword: Callable[[str], str]) -> E:
        """The same error with its own words, message and advice, passed through ``reword``."""
        self.message, self.hint = reword(self.message), reword(self.hint)
        self.args = (self.message,)
        return self

    def __str__(self) -> str:
        parts = [f"{self.code}: {one_line(self.message)}"]
        if self.hint:
            parts.append(self.hint)
        if self.job_id:
            parts.append(f"[job {self.job_id}]")
        if self.request_id:
            parts.append(f"[request {self.request_id}]")
        return " ".join(parts)


class NotConfigured(AcsError):
    """No base URL or no key is known."""

    code = "not_configured"
    advice = (
        "Set ACS_API_BASE and ACS_API_KEY, or start the embedded server: `%acs local` in a notebook, "
        "`acs-jupyter serve` in a terminal."
    )

    @classmethod
    def without(cls, base: object, key: object) -> NotConfigured:
        """The error of who has no server to ask: it names which of the two is missing."""
        missing = [name for name, value in (("ACS_API_BASE", base), ("ACS_API_KEY", key)) if not value]
        return cls(f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set.")


class ClientClosed(AcsError):
    """The client was closed, by ``close()`` or at the end of its ``with`` block; nothing was sent."""

    code = "client_closed"
    advice = "Make another one, or stay inside the `with` block."


class InvalidRequest(AcsError):
    """The request breaks a rule of the contract and was not sent."""

    code = "invalid_request"


class FileNotRead(InvalidRequest, OSError):
    """A file that was named is not there, or may not be read."""

    advice = "Check the name and the folder."


class FileNotUnderstood(InvalidRequest, ValueError):
    """A file that was named is not what it was taken for."""

    advice = "Check that it is the right file, and whole."


class LedgerFailed(AcsError):
    """The budget ledger cannot be read or written; no socket was opened."""

    code = "ledger_failed"
    advice = "Free the file, name another one in ACS_LEDGER, or work without: ACS_LEDGER=off."


class ConnectionFailed(AcsError):
    """The server could not be reached, or went away before it answered."""

    code = "connection_failed"
    advice = "Check ACS_API_BASE and that the server is running."


class NoPromptLogprobs(AcsError):
    """The server answered without the log-probabilities of the prompt, so nothing is known about the text."""

    code = "no_prompt_logprobs"
    advice = "Ask a model whose capabilities list prompt_logprobs."


class Interrupted(AcsError):
    """The answer was cut before its end; what came is kept and may have been billed."""

    code = "interrupted"
    advice = "What arrived is kept; sending again is a new, separately billed run."


class JobPending(AcsError):
    """The job has not ended yet. Nothing was cancelled: it goes on without anybody waiting."""

    code = "job_pending"
    advice = "It goes on without you; wait for it again, or cancel it."
    retry_after: float | None = None
    """Seconds the server asks to wait before the next question, when it said so."""
    state: str = ""
    """The job's state, when this answer told it."""


class ApiError(AcsError):
    """The server answered with an error.

    Attributes: ``code`` (str), ``status`` (HTTP status, or the code's own status when it came inside a 200),
    ``request_id``, ``retryable`` (bool), ``retry_after`` (seconds or ``None``), ``hint`` (advice, one line).
    """

    status: int = 0
    can_retry: ClassVar[bool] = False
    final: bool = False
    """Whether it is how a completion job ended, rather than a question that failed."""
    own: bool = False
    """Whether the service speaks: by a code of its table, or by saying whether to try again. Else a gateway may."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.code = code or type(self).code
        self.status = status or type(self).status
        self.retry_after = retry_after
        self.retryable = type(self).can_retry if retryable is None else retryable


def one_line(text: str) -> str:
    """One line that cannot steer a terminal: control and format characters are named."""
    flat = "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in " ".join(text.split()))
    return flat if len(flat) <= 600 else flat[:599] + "…"
