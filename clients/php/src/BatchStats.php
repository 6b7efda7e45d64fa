<?php

declare(strict_types=1);

namespace Redstalk;

/** The state of a batch and the counts of its members. */
final class BatchStats
{
    public readonly string $name;
    /** open, sealed, failing, done, failed, unsealed or cyclic */
    public readonly string $state;
    public readonly bool $sealed;
    public readonly int $total;
    public readonly int $pending;
    /** Buried members and dead letters. */
    public readonly int $parked;
    public readonly int $done;
    /** Members that expired, were flushed, cancelled or replaced. */
    public readonly int $gone;

    /**
     * @internal
     *
     * @param array<string, mixed> $all what the server has sent, with its names: also what has no property here
     * @param list<array<string, mixed>> $after id, tube and state of the first 100 jobs after it, and whether all says that it runs in any case; none in a list of batches
     */
    public function __construct(public readonly array $all, public readonly array $after = [])
    {
        $this->name = (string) $all['name'];
        $this->state = $all['state'];
        $this->sealed = $all['sealed'];
        $this->total = $all['total'];
        $this->pending = $all['pending'];
        $this->parked = $all['parked'];
        $this->done = $all['done'];
        $this->gone = $all['gone'];
    }
}
