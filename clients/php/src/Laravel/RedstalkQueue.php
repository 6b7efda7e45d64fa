<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Contracts\Queue\ShouldBeUnique;
use Illuminate\Contracts\Queue\ShouldBeUniqueUntilProcessing;
use Illuminate\Queue\Attributes\Delay;
use Illuminate\Queue\Attributes\UniqueFor;
use Illuminate\Queue\Jobs\InspectedJob;
use Illuminate\Queue\Queue;
use Illuminate\Support\Collection;
use Redstalk\Client;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Inspector;
use Redstalk\OnDuplicate;
use Redstalk\OnExpire;
use Redstalk\PutOptions;
use Redstalk\Receipt;
use Redstalk\TubeStats;

/** A connection of the driver "redstalk". A queue is a tube. */
class RedstalkQueue extends Queue implements QueueContract, ClearableQueue
{
    /** @var list<array{string, string, PutOptions}>|null the jobs of a bulk() under way */
    private ?array $bulk = null;

    /** The job that was popped last. */
    private ?RedstalkJob $popped = null;

    /**
     * @param int $retryAfter the TTR of jobs in seconds
     * @param int $blockFor how many seconds pop() waits for a job
     * @param ?OnExpire $onExpire what the server does with jobs after their retryUntil; null: the worker fails them
     * @param int $repeatFor how many seconds the server remembers puts, so that they can be repeated; 0 for not at all
     * @param ?float $keep for how many seconds the records of ended jobs are kept; null leaves it to the policy of the tube
     */
    public function __construct(
        protected readonly Client $client,
        protected readonly string $default = 'default',
        protected readonly int $retryAfter = PutOptions::DEFAULT_TTR,
        protected readonly int $blockFor = 0,
        bool $dispatchAfterCommit = false,
        protected readonly ?OnExpire $onExpire = null,
        protected readonly int $repeatFor = 0,
        protected readonly ?float $keep = null,
    ) {
        $this->dispatchAfterCommit = $dispatchAfterCommit;
    }

    /** Returns how many jobs are ready, delayed or reserved. */
    public function size($queue = null): int
    {
        return self::all($this->stats($queue));
    }

    public function pendingSize($queue = null): int
    {
        return $this->stats($queue)->ready ?? 0;
    }

    public function delayedSize($queue = null): int
    {
        return $this->stats($queue)->delayed ?? 0;
    }

    public function reservedSize($queue = null): int
    {
        return $this->stats($queue)->reserved ?? 0;
    }

    public function totalSize(): int
    {
        return $this->total(self::all(...));
    }

    public function totalPendingSize(): int
    {
        return $this->total(fn ($stats) => $stats->ready ?? 0);
    }

    public function totalDelayedSize(): int
    {
        return $this->total(fn ($stats) => $stats->delayed ?? 0);
    }

    public function totalReservedSize(): int
    {
        return $this->total(fn ($stats) => $stats->reserved ?? 0);
    }

    /** @return Collection<int, InspectedJob> which Laravel has since 13; so for the other lists */
    public function pendingJobs($queue = null): Collection
    {
        return $this->jobs($this->getQueue($queue), 'ready');
    }

    public function delayedJobs($queue = null): Collection
    {
        return $this->jobs($this->getQueue($queue), 'delayed');
    }

    public function reservedJobs($queue = null): Collection
    {
        return $this->jobs($this->getQueue($queue), 'reserved');
    }

    public function allPendingJobs(): Collection
    {
        return $this->allJobs('ready');
    }

    public function allDelayedJobs(): Collection
    {
        return $this->allJobs('delayed');
    }

    public function allReservedJobs(): Collection
    {
        return $this->allJobs('reserved');
    }

    /** Returns the Unix time when the oldest ready job was pushed. Without a policy of the tube, that of the next job. */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        $stats = $this->stats($queue);
        if (($stats->ready ?? 0) === 0) {
            return null;
        }
        $age = $stats->oldestReady ?? $this->inspector()->peekReady($this->getQueue($queue))?->stats()->age;

        return $age === null ? null : time() - $age;
    }

    public function push($job, $data = '', $queue = null): mixed
    {
        return $this->enqueue($job, $data, $queue, null);
    }

    public function later($delay, $job, $data = '', $queue = null): mixed
    {
        return $this->enqueue($job, $data, $queue, $delay);
    }

    /** @param array{delay?: mixed} $options */
    public function pushRaw($payload, $queue = null, array $options = []): mixed
    {
        return $this->put(null, $payload, $queue, $options['delay'] ?? null);
    }

    /** Pushes jobs without waiting for each reply. Their JobQueued events have no id. */
    public function bulk($jobs, $data = '', $queue = null): void
    {
        $this->bulk = [];
        try {
            foreach ((array) $jobs as $job) {
                $this->enqueue($job, $data, $queue, is_object($job) ? $this->valueOf($job, Delay::class, 'delay') : null);
            }
            $jobs = $this->bulk;
        } finally {
            $this->bulk = null;
        }
        foreach ($this->client->putMany($jobs) as $result) {
            if ($result instanceof RedstalkException) {
                throw $result;
            }
        }
    }

    /** @param int $index only the first of several queues is waited for */
    public function pop($queue = null, $index = 0): ?RedstalkJob
    {
        $queue = $this->getQueue($queue);
        KeyLock::forgetReleased();
        $job = $this->client->reserve($queue, $index === 0 ? $this->blockFor : 0);

        return $this->popped = $job === null ? null : new RedstalkJob($this->container, $job, $this->connectionName, $queue);
    }

    /** Deletes the jobs of a queue that are not reserved, and returns how many. */
    public function clear($queue): int
    {
        return $this->inspector()->flush($this->getQueue($queue));
    }

    /**
     * Returns the name of a queue, or of the one to which Laravel forwards it.
     *
     * @param \UnitEnum|string|null $queue
     */
    public function getQueue($queue): string
    {
        $name = $queue instanceof \UnitEnum ? $queue->value ?? $queue->name : $queue;
        $name = (string) ($name ?: $this->default);

        return method_exists($this, 'resolveQueue') ? $this->resolveQueue($name) : $name; // since Laravel 13
    }

    public function getClient(): Client
    {
        return $this->client;
    }

    public function inspector(): Inspector
    {
        return new Inspector($this->client);
    }

    private static function all(?TubeStats $stats): int
    {
        return $stats === null ? 0 : $stats->ready + $stats->delayed + $stats->reserved;
    }

    /** @param \Closure(?TubeStats): int $size */
    private function total(\Closure $size): int
    {
        return array_sum(array_map(fn ($tube) => $size($this->statsOf($tube)), $this->inspector()->tubes()));
    }

    private function allJobs(string $state): Collection
    {
        return (new Collection($this->inspector()->tubes()))->flatMap(fn ($tube) => $this->jobs($tube, $state));
    }

    private function jobs(string $tube, string $state): Collection
    {
        $jobs = [];
        foreach ($this->inspector()->jobs($tube, $state) as $stats) {
            if ($job = $this->inspector()->peek($stats->id)) {
                $jobs[] = is_array(json_decode($job->body, true))
                    ? InspectedJob::fromPayload($job->body, $stats->deliveries, $tube)
                    : new InspectedJob(null, $tube, null, $stats->deliveries); // of pushRaw
            }
        }

        return new Collection($jobs);
    }

    private function stats(mixed $queue): ?TubeStats
    {
        return $this->statsOf($this->getQueue($queue));
    }

    private function statsOf(string $tube): ?TubeStats
    {
        try {
            return $this->inspector()->tube($tube);
        } catch (NotFoundException) {
            return null; // it is empty
        }
    }

    private function enqueue(mixed $job, mixed $data, mixed $queue, mixed $delay): mixed
    {
        return $this->enqueueUsing(
            $job,
            $this->createPayload($job, $this->getQueue($queue), $data, $delay), // which Laravel 8 to 11 ignore
            $queue,
            $delay,
            fn ($payload, $queue) => $this->put($job, $payload, $queue, $delay),
        );
    }

    /** Puts a job, or adds it to the bulk. Returns its id if it is known. */
    private function put(mixed $job, string $payload, mixed $queue, mixed $delay): ?int
    {
        $options = $this->options($job, $delay === null ? 0 : $this->secondsUntil($delay));
        if ($this->hasKey($job)) {
            return $this->putUnique($job, $payload, $this->getQueue($queue), $options)->id;
        }
        if ($this->repeatFor > 0) {
            $options = $options->with(key: bin2hex(random_bytes(10)), keyTtl: $this->repeatFor);
        }
        if ($this->bulk !== null) {
            $this->bulk[] = [$this->getQueue($queue), $payload, $options];

            return null;
        }

        return $this->client->put($this->getQueue($queue), $payload, $options)->id;
    }

    /**
     * Returns a property of a job, or what an attribute of its class says.
     *
     * @param class-string $attribute that Laravel has since 13
     */
    private function valueOf(object $job, string $attribute, string $property): mixed
    {
        return method_exists($this, 'getAttributeValue') ? $this->getAttributeValue($job, $attribute, $property) : $job->$property ?? null;
    }

    private function options(mixed $job, int $delay): PutOptions
    {
        $group = is_object($job) ? $job->messageGroup ?? (method_exists($job, 'messageGroup') ? $job->messageGroup() : null) : null;
        $until = $this->onExpire !== null && is_object($job) && !$job instanceof \Closure ? $this->getJobExpiration($job) : null;

        return new PutOptions(
            ttr: $this->retryAfter,
            delay: $delay,
            group: $group === null ? null : (string) $group,
            expire: $until === null ? null : max($until - time() - $delay, 1),
            onExpire: $until === null ? null : $this->onExpire,
            keep: $this->keep,
        );
    }

    /**
     * Whether a job gets a key. Others have at most Laravel's own lock: if that is theirs, they must not be refused here. As in Laravel, a
     * job is not unique within a batch, nor as the first one of a chain that is not dispatched by itself.
     */
    private function hasKey(mixed $job): bool
    {
        return $job instanceof ShouldBeUnique && !$job instanceof ShouldBeUniqueUntilProcessing
            && in_array(UniqueOnServer::class, class_uses_recursive($job), true)
            && ($job->batchId ?? null) === null && (($job->chained ?? []) === [] || KeyLock::wasAcquired($job));
    }

    /** Puts a job unless one with its unique id exists that is younger than uniqueFor. */
    private function putUnique(ShouldBeUnique $job, string $payload, string $queue, PutOptions $options): Receipt
    {
        $for = method_exists($job, 'uniqueFor') ? $job->uniqueFor() : $this->valueOf($job, UniqueFor::class, 'uniqueFor') ?? 0;
        for ($key = self::key($job);; $key .= "~$receipt->id") {
            $word = preg_match('/^[!-~]{1,128}$/D', $key) ? $key : hash('sha256', $key);
            $receipt = $this->client->put($queue, $payload, $options->with(key: $word));
            if ($receipt->state !== '' && $this->popped?->getJobId() === $receipt->id && self::hasRun($job)) {
                $receipt = $this->client->put($queue, $payload, $options->with(key: $word, onDuplicate: OnDuplicate::Replace));
                $this->popped->replaced();

                return $receipt;
            }
            if ($receipt->state === '' || $for <= 0 || $this->age($receipt->id) < $for) {
                return $receipt;
            }
        }
    }

    /** Whether the job that was popped has run and has the unique id of this one, which is then the next one of its chain. */
    private static function hasRun(ShouldBeUnique $job): bool
    {
        $before = KeyLock::released();

        return $before instanceof ShouldBeUnique && self::key($before) === self::key($job);
    }

    private static function key(ShouldBeUnique $job): string
    {
        return $job::class . ':' . (method_exists($job, 'uniqueId') ? $job->uniqueId() : $job->uniqueId ?? '');
    }

    private function age(int $id): int
    {
        try {
            return $this->inspector()->job($id)->age;
        } catch (NotFoundException) {
            return 0; // it was done a moment ago
        }
    }
}
