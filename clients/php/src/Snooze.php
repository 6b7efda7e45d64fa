<?php

declare(strict_types=1);

namespace Redstalk;

/** Thrown by a handler: deliver the job again after so many seconds, at least one. That is no failure. */
final class Snooze extends \Exception
{
    public function __construct(public readonly int $seconds = 1)
    {
        parent::__construct("again after $seconds s");
    }
}
