"""The exceptions. Those of replies have the names that greenstalk gives them."""


class Error(Exception):
    """The base of all exceptions of this package."""


class UnavailableError(Error):
    """No server could be reached in time. The command was not carried out."""


class UnknownOutcomeError(Error):
    """The connection was lost after the command was sent, so it may have been carried out."""


class ClosedError(Error):
    """The client was closed."""


class InvalidArgumentError(Error, ValueError):
    """An argument cannot be sent, such as a tube name with a space. Nothing was sent."""


class EndedError(Error):
    """The job whose result was asked for has ended otherwise than done, or is parked."""

    def __init__(self, id: int, how: str, reason: str = "") -> None:
        super().__init__(f"job {id} is {how}" + (f": {reason}" if reason else ""))
        self.id, self.how, self.reason = id, how, reason


class UnsupportedError(Error):
    """The server lacks a feature, as beanstalkd lacks keys. Nothing was done."""

    def __init__(self, feature: str) -> None:
        super().__init__(f"the server does not support {feature}")
        self.feature = feature


class BeanstalkdError(Error):
    """The server refused a command."""


class BadFormatError(BeanstalkdError):
    """The server cannot read the command: an argument is invalid."""


class BatchSealedError(BeanstalkdError):
    """The batch of a put is sealed: it takes no more members."""


class BuriedError(BeanstalkdError):
    """The server had too little memory to make the job ready, so it is buried."""

    def __init__(self, id: int | None = None) -> None:
        super().__init__("BURIED" if id is None else f"BURIED {id}")
        self.id = id


class DeadlineSoonError(BeanstalkdError):
    """A job that this connection holds is within a second of the end of its TTR (beanstalkd only)."""


class DrainingError(BeanstalkdError):
    """No server accepts puts at present."""


class DuplicateError(BeanstalkdError):
    """The key of a put with on_duplicate="fail" is taken."""

    def __init__(self, id: int) -> None:
        super().__init__(f"DUPLICATE {id}")
        self.id = id


class ExpectedCrlfError(BeanstalkdError):
    """The body did not end in CR LF."""


class ForbiddenError(BeanstalkdError):
    """The user lacks a right."""


class InternalError(BeanstalkdError):
    """The server failed in the middle of a command, which may have been carried out."""


class JobTooBigError(BeanstalkdError):
    """The body, a result or a checkpoint exceeds the largest size that the server accepts."""


class NotFoundError(BeanstalkdError):
    """There is no such job, key, tube, policy, schedule or batch, or the job is not in a state for that, or no longer reserved."""


class NotKeptError(BeanstalkdError):
    """Neither the job nor the policy of its tube has keep: nothing is kept of it when it has ended."""


class NotIgnoredError(BeanstalkdError):
    """The only watched tube cannot be ignored."""


class OutOfMemoryError(BeanstalkdError):
    """The server or the quota of the tube is full."""


class TimedOutError(BeanstalkdError):
    """No job was ready, or had ended, in time."""


class UnauthorizedError(BeanstalkdError):
    """The user or the secret is wrong."""


class UnknownCommandError(BeanstalkdError):
    """The server does not know the command."""


class UnknownResponseError(Error):
    """The reply cannot be understood. The connection is closed."""


REPLIES: dict[str, type[BeanstalkdError]] = {
    "BAD_FORMAT": BadFormatError,
    "BATCH_SEALED": BatchSealedError,
    "BURIED": BuriedError,
    "DEADLINE_SOON": DeadlineSoonError,
    "DRAINING": DrainingError,
    "EXPECTED_CRLF": ExpectedCrlfError,
    "FORBIDDEN": ForbiddenError,
    "INTERNAL_ERROR": InternalError,
    "JOB_TOO_BIG": JobTooBigError,
    "NOT_FOUND": NotFoundError,
    "NOT_IGNORED": NotIgnoredError,
    "NOT_KEPT": NotKeptError,
    "OUT_OF_MEMORY": OutOfMemoryError,
    "TIMED_OUT": TimedOutError,
    "UNAUTHORIZED": UnauthorizedError,
    "UNKNOWN_COMMAND": UnknownCommandError,
}
