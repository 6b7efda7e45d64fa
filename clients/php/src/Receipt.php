<?php

declare(strict_types=1);

namespace Redstalk;

/** Which job a put has made, or found. */
final class Receipt
{
    /**
     * @param string $state empty if the job is new. If its key was taken, the state of the job that has it: READY, DELAYED,
     *                      RESERVED or BURIED; or GONE if that job is gone and only its key stays taken
     */
    public function __construct(public readonly int $id, public readonly string $state = '')
    {
    }
}
