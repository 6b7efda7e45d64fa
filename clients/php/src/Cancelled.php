<?php

declare(strict_types=1);

namespace Redstalk;

/**
 * Thrown in a handler that is to end, wherever it is in PHP code. What it returns or throws after that has no effect.
 *
 * It is an Error, so that a handler that catches each \Exception does not go on.
 */
final class Cancelled extends \Error
{
    /** @param string $cause timeout: its time is over; lost: its job is no longer reserved, or was deleted; shutdown: the worker ends */
    public function __construct(public readonly string $cause)
    {
        parent::__construct($cause);
    }
}
