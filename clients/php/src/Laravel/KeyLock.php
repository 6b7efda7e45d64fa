<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Cache\NoLock;

/**
 * @internal The lock of a job whose uniqueness is that of a key at the server: it is always free, and notes what Laravel does with it.
 *
 * Laravel asks for the lock of a job that is to be unique, but not for those of a batch, nor for the first one of a chain. It releases
 * the lock when the job has run, before it puts the next one of the chain.
 */
final class KeyLock extends NoLock
{
    /** @var ?\WeakMap<object, true> jobs whose lock was asked for */
    private static ?\WeakMap $acquired = null;

    /** The job that has run, as of the last pop. */
    private static ?object $released = null;

    public function __construct(private readonly object $job, string $name, int $seconds, ?string $owner)
    {
        parent::__construct($name, $seconds, $owner);
    }

    public static function wasAcquired(object $job): bool
    {
        return isset(self::$acquired[$job]);
    }

    public static function released(): ?object
    {
        return self::$released;
    }

    public static function forgetReleased(): void
    {
        self::$released = null;
    }

    public function acquire()
    {
        self::$acquired ??= new \WeakMap();
        self::$acquired[$this->job] = true;

        return true;
    }

    public function forceRelease()
    {
        if (!self::wasAcquired($this->job)) { // by this process, as for a job whose dispatch was rolled back
            self::$released = $this->job;
        }
    }
}
