<?php

declare(strict_types=1);

namespace Redstalk\Exception;

/** A job that the same connection holds is within a second of the end of its TTR. Only with beanstalkd. */
final class DeadlineSoonException extends RedstalkException
{
}
