<?php

declare(strict_types=1);

namespace Redstalk\Symfony;

use Redstalk\PutOptions;
use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/**
 * How a message is put: priority, key, group, expiry and so on. The delay is that of DelayStamp, if there is one, and the TTR
 * that of the DSN.
 *
 * The transport sends the options with the message, whatever the serializer. When a message is sent again for a retry, it
 * takes the key over.
 */
final class RedstalkStamp implements NonSendableStampInterface
{
    public function __construct(public readonly PutOptions $options)
    {
    }
}
