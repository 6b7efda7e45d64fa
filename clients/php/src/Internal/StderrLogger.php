<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Psr\Log\AbstractLogger;
use Psr\Log\LogLevel;

/** @internal Writes warnings and errors to where PHP writes its own, which is stderr. */
final class StderrLogger extends AbstractLogger
{
    public function log($level, $message, array $context = []): void
    {
        if (!in_array($level, [LogLevel::DEBUG, LogLevel::INFO, LogLevel::NOTICE], true)) {
            error_log((string) $message);
        }
    }
}
