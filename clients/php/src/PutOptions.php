<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Internal\Text;

/**
 * How a job is put. Options after $at need redstalk; with beanstalkd the put throws an UnsupportedException. Times are in
 * seconds, and can have fractions of milliseconds, except $ttr.
 */
final class PutOptions
{
    public const DEFAULT_PRIORITY = 1024;
    public const DEFAULT_TTR = 60;

    /** The capability that a tag needs beyond put-tags. */
    private const NEEDS = [
        'meta' => 'meta', 'trace' => 'meta', 'expire' => 'expire', 'on-expire' => 'expire', 'jitter' => 'backoff', 'group' => 'groups',
        'batch' => 'batches', 'after' => 'batches', 'after-all' => 'batches', 'batch-ttl' => 'batches', 'keep' => 'results',
    ];

    /** The longest line of a put with tags, in bytes. */
    private const MAX_LINE = 4096;

    /** @var list<array{string, string}> names and values of the tags */
    private readonly array $tagList;

    /**
     * @param int $priority 0 is the most urgent
     * @param int $ttr time to run (visibility timeout): how long a worker has the job before it is delivered again
     * @param float $delay how long until it is ready; beanstalkd rounds it up to seconds
     * @param ?\DateTimeInterface $at when it is ready, instead of $delay
     * @param ?string $key deduplication key, 1 to 128 printable ASCII characters without space: at most one job of the tube has it
     * @param ?float $keyTtl how long the key stays taken after the job is gone. With $key the put is safe to repeat
     * @param list<float>|string|null $retry the waits after the 1st, 2nd, … failure, or 'exp(FIRST,LONGEST,COUNT)' such as 'exp(10s,1h,25)'
     * @param ?int $jitter by how many per cent each of these is spread
     * @param ?int $max the maximum number of deliveries
     * @param ?string $dead the dead-letter tube, where an exhausted job goes instead of being buried
     * @param ?float $expire how long it is worth doing, from when it is first due
     * @param ?string $group the group of the job in its tube, such as a customer
     * @param array<string, string> $meta headers for the worker
     * @param ?string $trace a W3C traceparent
     * @param ?string $batch the batch of which the job is a member, see Batch
     * @param ?string $after the batch that must be done before the job runs
     * @param ?string $afterAll the batch that must have ended before the job runs
     * @param ?float $batchTtl how long that batch can stay unsealed, 24 hours by default
     * @param ?float $keep how long the record of the job is kept after its end, with the result
     */
    public function __construct(
        public readonly int $priority = self::DEFAULT_PRIORITY,
        public readonly int $ttr = self::DEFAULT_TTR,
        public readonly float $delay = 0,
        public readonly ?\DateTimeInterface $at = null,
        public readonly ?string $key = null,
        public readonly ?OnDuplicate $onDuplicate = null,
        public readonly ?float $keyTtl = null,
        public readonly array|string|null $retry = null,
        public readonly ?int $jitter = null,
        public readonly ?int $max = null,
        public readonly ?string $dead = null,
        public readonly ?float $expire = null,
        public readonly ?OnExpire $onExpire = null,
        public readonly ?string $group = null,
        public readonly array $meta = [],
        public readonly ?string $trace = null,
        public readonly ?string $batch = null,
        public readonly ?string $after = null,
        public readonly ?string $afterAll = null,
        public readonly ?float $batchTtl = null,
        public readonly ?float $keep = null,
    ) {
        $this->tagList = $this->tags();
        if ($priority < 0 || $priority > 0xFFFFFFFF) {
            throw new InvalidArgumentException("invalid priority $priority");
        }
    }

    /** Returns a copy with other values for some options, such as with(delay: 10). */
    public function with(mixed ...$changes): self
    {
        $options = get_object_vars($this);
        unset($options['tagList']);

        return new self(...($changes + $options));
    }

    /** Whether a put with these options does the same if it is carried out again. */
    public function isRepeatable(): bool
    {
        return $this->key !== null && $this->keyTtl > 0 && ($this->onDuplicate ?? OnDuplicate::Keep) === OnDuplicate::Keep;
    }

    /**
     * @internal Returns the line of the put, without CR LF.
     *
     * @param array<string, true> $capabilities of the server
     * @throws UnsupportedException
     */
    public function line(int $length, array $capabilities): string
    {
        $tagged = isset($capabilities['put-tags']);
        $delay = max($this->delay, 0);
        if ($this->at !== null && !$tagged) {
            $delay = max((float) $this->at->format('U.u') - microtime(true), 0);
        }
        $line = sprintf('put %d %d %d %d', $this->priority, ceil($delay), max($this->ttr, 1), $length);
        if ($tagged && $this->at !== null) {
            $line .= ' at:' . max((int) $this->at->format('Uv'), 0);
        } elseif ($tagged && fmod($delay, 1) > 0) {
            $line .= ' delay:' . Text::duration($delay);
        }
        $line .= $this->tagsFor($capabilities, 'put');
        if (strlen($line) > self::MAX_LINE - 2) {
            throw new InvalidArgumentException('the tags of the put are longer than ' . self::MAX_LINE . ' bytes');
        }

        return $line;
    }

    /**
     * @internal Returns the tags but those of the delay, each with a space before.
     *
     * @param array<string, true> $capabilities of the server
     * @throws UnsupportedException
     */
    public function tagsFor(array $capabilities, string $verb): string
    {
        $line = '';
        foreach ($this->tagList as [$name, $value]) {
            if (!isset($capabilities['put-tags'], $capabilities[self::NEEDS[$name] ?? 'put-tags'])) {
                throw new UnsupportedException("$verb with $name");
            }
            $line .= " $name:$value";
        }

        return $line;
    }

    /** @return list<array{string, string}> */
    private function tags(): array
    {
        $retry = is_array($this->retry) ? implode(',', array_map(Text::duration(...), $this->retry)) : $this->retry;
        $tags = [];
        foreach (
            [
            'key' => $this->key === null ? null : Text::word($this->key, 'key', 128),
            'on-duplicate' => $this->onDuplicate?->value,
            'key-ttl' => $this->keyTtl === null ? null : Text::duration($this->keyTtl),
            'retry' => $retry === null ? null : Text::word($retry, 'retry', 1000),
            'jitter' => $this->jitter,
            'max' => $this->max,
            'dead' => $this->dead === null ? null : Text::tube($this->dead),
            'expire' => $this->expire === null ? null : Text::duration($this->expire),
            'on-expire' => $this->onExpire?->value,
            'group' => $this->group === null ? null : Text::quote($this->group),
            'batch' => $this->batch === null ? null : Text::tube($this->batch),
            'after' => $this->after === null ? null : Text::tube($this->after),
            'after-all' => $this->afterAll === null ? null : Text::tube($this->afterAll),
            'batch-ttl' => $this->batchTtl === null ? null : Text::duration($this->batchTtl),
            'keep' => $this->keep === null ? null : Text::duration($this->keep),
            'trace' => $this->trace === null ? null : Text::word($this->trace, 'trace', 55),
            ] as $name => $value
        ) {
            if ($value !== null) {
                $tags[] = [$name, (string) $value];
            }
        }
        foreach ($this->meta as $name => $value) {
            $tags[] = ['meta', Text::word((string) $name, 'meta', 128) . '=' . Text::quote($value)];
        }

        return $tags;
    }
}
