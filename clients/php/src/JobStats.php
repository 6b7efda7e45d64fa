<?php

declare(strict_types=1);

namespace Redstalk;

/** What the server knows about a job. Times are in seconds. What beanstalkd does not have is empty, 0 or null. */
final class JobStats
{
    public readonly int $id;
    public readonly string $tube;
    /** ready, delayed, reserved or buried */
    public readonly string $state;
    public readonly int $priority;
    public readonly int $ttr;
    /** Since it was put. */
    public readonly int $age;
    /** Until a delayed job is due, or the TTR of a reserved one ends; 0 if it is not known. */
    public readonly float $left;
    /** Deliveries so far. */
    public readonly int $deliveries;
    /** Releases and TTRs that ended, so far. */
    public readonly int $failures;
    public readonly ?string $key;
    public readonly ?string $group;
    /** The batch of which it is a member. */
    public readonly ?string $batch;
    /** The waits of the server, such as 10s,1m. */
    public readonly ?string $retry;
    /** @var array<string, string> headers of the put */
    public readonly array $meta;
    public readonly ?string $trace;
    /** Why it last failed. */
    public readonly ?string $reason;
    public readonly ?\DateTimeImmutable $failedAt;
    /** How far its worker has said it is; null if it has not, or the job was reserved again. */
    public readonly ?string $progress;
    /** The length of its last checkpoint. */
    public readonly int $checkpointBytes;

    /**
     * @internal
     *
     * @param array<string, mixed> $all what the server has sent, with its names: also what has no property here
     */
    public function __construct(public readonly array $all)
    {
        $this->id = $all['id'] ?? 0;
        $this->tube = (string) ($all['tube'] ?? '');
        $this->state = $all['state'] ?? 'reserved';
        $this->priority = $all['pri'] ?? 0;
        $this->ttr = $all['ttr'] ?? 0;
        $this->age = $all['age'] ?? 0;
        $this->left = isset($all['due-ms']) ? $all['due-ms'] / 1000 : $all['time-left'] ?? 0;
        $this->deliveries = $all['deliveries'] ?? $all['reserves'] ?? 0;
        $this->failures = $all['failures'] ?? ($all['releases'] ?? 0) + ($all['timeouts'] ?? 0);
        $this->key = self::text($all['key'] ?? '');
        $this->group = self::text($all['group'] ?? '');
        $this->batch = self::text($all['batch'] ?? '');
        $this->retry = self::text($all['retry'] ?? '');
        $this->meta = $all['meta'] ?? [];
        $this->trace = self::text($all['trace'] ?? '');
        $this->reason = self::text($all['reason'] ?? '');
        $this->progress = self::text($all['progress'] ?? '');
        $this->checkpointBytes = $all['checkpoint-bytes'] ?? 0;
        $ms = $all['failed-ms'] ?? 0;
        $this->failedAt = $ms ? new \DateTimeImmutable(sprintf('@%d.%03d', intdiv($ms, 1000), $ms % 1000)) : null;
    }

    private static function text(mixed $value): ?string
    {
        return $value === '' ? null : (string) $value;
    }
}
