<?php

declare(strict_types=1);

namespace Redstalk\Internal;

/** @internal There is no connection, or it was lost before all replies were read. */
final class ConnectionLost extends \RuntimeException
{
    /** @var list<Reply> the replies that were read */
    public array $replies = [];

    /** @param bool $sent whether something was sent, so that the server may have carried it out */
    public function __construct(string $message, public readonly bool $sent)
    {
        parent::__construct($message);
    }
}
