<?php

declare(strict_types=1);

namespace Redstalk;

/** Thrown by a handler: bury the job, for this reason. */
final class Skip extends \Exception
{
    public function __construct(string $reason)
    {
        parent::__construct($reason);
    }
}
