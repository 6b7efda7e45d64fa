<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** The job has no keep, so that nothing is left of it at its end. */
final class NotKeptException extends RedstalkException
{
}
