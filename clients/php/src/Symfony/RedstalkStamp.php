<?php

declare(strict_types=1);

namespace Redstalk\Symfony;

use Redstalk\PutOptions;
use Symfony\Component\Messenger\Stamp\StampInterface;

/**
 * How a message is put: priority, key, group, expiry and so on. The delay is that of DelayStamp, and the TTR that of the DSN.
 *
 * When a message is sent again for a retry, it takes the key over.
 */
final class RedstalkStamp implements StampInterface
{
    public function __construct(public readonly PutOptions $options)
    {
    }
}
