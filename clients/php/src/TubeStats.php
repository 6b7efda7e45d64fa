<?php

declare(strict_types=1);

namespace Redstalk;

/** What the server knows about a tube. */
final class TubeStats
{
    public readonly string $name;
    public readonly int $ready;
    public readonly int $delayed;
    public readonly int $reserved;
    public readonly int $buried;
    /** Jobs put since the tube exists. */
    public readonly int $total;
    /** Clients that wait in a reserve. */
    public readonly int $waiting;
    /** Age of the oldest ready job in seconds; null unless the tube has a policy. */
    public readonly ?int $oldestReady;

    /**
     * @internal
     *
     * @param array<string, mixed> $all what the server has sent, with its names: also what has no property here
     */
    public function __construct(public readonly array $all)
    {
        $this->name = (string) $all['name'];
        $this->ready = $all['current-jobs-ready'];
        $this->delayed = $all['current-jobs-delayed'];
        $this->reserved = $all['current-jobs-reserved'];
        $this->buried = $all['current-jobs-buried'];
        $this->total = $all['total-jobs'];
        $this->waiting = $all['current-waiting'];
        $this->oldestReady = $all['oldest-ready'] ?? null;
    }
}
