<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The body or the result exceeds the largest size that the server accepts. */
final class JobTooBigException extends RedstalkException
{
}
