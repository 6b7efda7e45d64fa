<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Cache\NullStore;

/** @internal The cache for the lock of a job. */
final class KeyStore extends NullStore
{
    public function __construct(private readonly object $job)
    {
    }

    public function lock($name, $seconds = 0, $owner = null)
    {
        return new KeyLock($this->job, $name, (int) $seconds, $owner);
    }
}
