<?php

declare(strict_types=1);

namespace Redstalk\Symfony;

use Redstalk\Job;
use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** The job of a message that was received. */
final class RedstalkReceivedStamp implements NonSendableStampInterface
{
    public function __construct(public readonly Job $job)
    {
    }
}
