<?php

declare(strict_types=1);

namespace Redstalk;

/** What becomes of a job that has expired. */
enum OnExpire: string
{
    /** It is deleted. The default. */
    case Delete = 'delete';
    /** It is buried, or goes to its dead-letter tube. */
    case Park = 'park';
}
