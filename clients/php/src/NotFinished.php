<?php

declare(strict_types=1);

namespace Redstalk;

/** Thrown by a handler: the job is ready again at once, and goes on from its last checkpoint. That is no failure. */
final class NotFinished extends \Exception
{
    public function __construct()
    {
        parent::__construct('not finished');
    }
}
