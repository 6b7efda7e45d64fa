<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Internal\Text;

/** The times of a schedule: it has either $cron or $every. Durations are in seconds. */
final class Times
{
    /**
     * @param ?string $cron such as '30 2 * * 1-5', or '@daily'
     * @param ?float $every from one job to the next, at least 1
     * @param ?string $tz the time zone of $cron, such as 'Europe/Berlin'; UTC by default
     * @param ?\DateTimeInterface $from the first possible time
     * @param ?\DateTimeInterface $until the last possible time
     * @param ?float $spread each job is put later by a part of this, so that not all schedules put at once; the server calls it jitter
     * @param ?string $overlap what happens if the job before is still there: 'skip' (default), 'replace', 'allow' or 'buffer-one'
     * @param ?float $catchUp how late a missed job can be put
     * @param ?int $catchUpAll how many missed jobs are put; by default the latest
     */
    public function __construct(
        public readonly ?string $cron = null,
        public readonly ?float $every = null,
        public readonly ?string $tz = null,
        public readonly ?\DateTimeInterface $from = null,
        public readonly ?\DateTimeInterface $until = null,
        public readonly ?float $spread = null,
        public readonly ?string $overlap = null,
        public readonly ?float $catchUp = null,
        public readonly ?int $catchUpAll = null,
    ) {
    }

    /** @internal Returns the tags, each with a space before. */
    public function tags(): string
    {
        $duration = static fn (?float $seconds) => $seconds === null ? null : Text::duration($seconds);
        $tags = '';
        foreach (
            [
            'cron' => $this->cron === null ? null : Text::quote($this->cron),
            'every' => $duration($this->every),
            'tz' => $this->tz === null ? null : Text::word($this->tz, 'tz', 100),
            'from' => $this->from?->format('Uv'),
            'until' => $this->until?->format('Uv'),
            'jitter' => $duration($this->spread),
            'overlap' => $this->overlap === null ? null : Text::word($this->overlap, 'overlap', 20),
            'catch-up' => $duration($this->catchUp),
            'catch-up-all' => $this->catchUpAll,
            ] as $name => $value
        ) {
            $tags .= $value === null ? '' : " $name:$value";
        }

        return $tags;
    }
}
