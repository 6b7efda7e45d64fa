<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The server failed to carry out a command that only reads, usually because its store did. */
final class ServerException extends RedstalkException
{
}
