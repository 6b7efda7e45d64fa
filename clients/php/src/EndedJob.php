<?php

declare(strict_types=1);

namespace Redstalk;

/** The record of a job that has ended. */
final class EndedJob
{
    public readonly int $id;
    public readonly string $tube;
    /** done, deleted, expired, dead or moved */
    public readonly string $how;
    public readonly \DateTimeImmutable $put;
    /** When its first delivery was, if that was the last one. */
    public readonly ?\DateTimeImmutable $firstStart;
    public readonly \DateTimeImmutable $ended;
    /** Until when the record is kept at most. */
    public readonly \DateTimeImmutable $until;
    public readonly int $deliveries;
    public readonly int $failures;
    /** The name of the connection that held the job, else its user. */
    public readonly ?string $holder;
    /** Why it last failed. */
    public readonly ?string $reason;
    public readonly ?string $result;

    /**
     * @internal
     *
     * @param array<string, mixed> $all what the server has sent, with its names: also what has no property here
     */
    public function __construct(public readonly array $all)
    {
        $this->id = $all['id'];
        $this->tube = (string) $all['tube'];
        $this->how = $all['how'];
        $this->put = self::time($all['put-ms']);
        $this->firstStart = isset($all['first-start-ms']) ? self::time($all['first-start-ms']) : null;
        $this->ended = self::time($all['ended-ms']);
        $this->until = self::time($all['until-ms']);
        $this->deliveries = $all['deliveries'];
        $this->failures = $all['failures'];
        $this->holder = isset($all['holder']) ? (string) $all['holder'] : null;
        $this->reason = isset($all['reason']) ? (string) $all['reason'] : null;
        $this->result = isset($all['result']) ? base64_decode((string) $all['result'], true) : null;
    }

    private static function time(int $ms): \DateTimeImmutable
    {
        return new \DateTimeImmutable(sprintf('@%d.%03d', intdiv($ms, 1000), $ms % 1000));
    }
}
