<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Cache\Repository;

/**
 * For jobs that are ShouldBeUnique: leaves uniqueness to the server's keys, without a lock in the cache. Such a lock stays if
 * a job is lost or its worker dies; a key belongs to the job.
 */
trait UniqueOnServer
{
    public function uniqueVia(): Repository
    {
        return new Repository(new KeyStore($this)); // its locks are always free
    }
}
