<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The server or the quota of the tube is full. */
final class OutOfMemoryException extends RedstalkException
{
}
