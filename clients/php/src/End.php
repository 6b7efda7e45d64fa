<?php

declare(strict_types=1);

namespace Redstalk;

/** What has become of a job. */
final class End
{
    /**
     * @internal
     *
     * @param string $how done, deleted, expired, dead, moved; or parked: then it is buried, which is no end, but it does not go on by itself
     * @param string $body the result if it is done, tube and id of the other job if it is dead or moved, the reason if it is parked
     */
    public function __construct(public readonly int $id, public readonly string $how, public readonly string $body)
    {
    }

    public function isDone(): bool
    {
        return $this->how === 'done';
    }

    /**
     * Returns the result that was given as JSON, with arrays for objects; null if there is none.
     *
     * @throws \JsonException if it is something else
     */
    public function json(): mixed
    {
        return $this->body === '' ? null : json_decode($this->body, true, flags: JSON_THROW_ON_ERROR);
    }
}
