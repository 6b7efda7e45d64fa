<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** A command was sent and its reply is not known, since the connection was lost or the server failed. It may have been carried out. */
final class UnknownOutcomeException extends RedstalkException
{
}
