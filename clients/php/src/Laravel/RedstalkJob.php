<?php

declare(strict_types=1);

namespace Redstalk\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;
use Redstalk\Exception\NotFoundException;
use Redstalk\Job as ReservedJob;

/** A job that a worker has popped. */
class RedstalkJob extends Job implements JobContract
{
    private string $reason = '';

    private bool $replaced = false;

    public function __construct(Container $container, protected readonly ReservedJob $job, string $connectionName, string $queue)
    {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $queue;
    }

    public function delete(): void
    {
        parent::delete();
        $this->finish(fn () => $this->job->delete());
    }

    /** Gives the job back. Without a delay the retry waits of the queue's policy apply, if there are any. */
    public function release($delay = 0): void
    {
        parent::release($delay);
        $this->finish(fn () => $this->job->release($this->secondsUntil($delay), $this->reason));
    }

    /** Sets the job aside until it is kicked or replayed. */
    public function bury(): void
    {
        parent::delete();
        $this->finish(fn () => $this->job->bury($this->reason));
    }

    /**
     * Gives the job back at once, since it is not finished: that is no attempt. It goes on from its last checkpoint, also with another worker.
     */
    public function notFinished(): void
    {
        parent::release();
        $this->finish(fn () => $this->job->giveBack());
    }

    /** Whether the worker was told to end by a signal: a long job can save a checkpoint then, and is not finished. */
    public function isStopping(): bool
    {
        return $this->container->bound('queue.worker') && $this->container->make('queue.worker')->shouldQuit;
    }

    /** Saves any JSON for the next attempt, and starts retry_after again. */
    public function checkpoint(mixed $value): void
    {
        $this->job->checkpoint($value);
    }

    /** Returns what was saved last; null if there is nothing. */
    public function lastCheckpoint(): mixed
    {
        return $this->job->lastCheckpoint();
    }

    /** Starts retry_after again, and shows how far the job is, in at most 256 bytes. */
    public function touch(?string $progress = null): void
    {
        $this->job->touch($progress);
    }

    public function attempts(): int
    {
        return $this->job->stats()->deliveries;
    }

    public function getJobId(): int
    {
        return $this->job->id;
    }

    public function getRawBody(): string
    {
        return $this->job->body;
    }

    public function getRedstalkJob(): ReservedJob
    {
        return $this->job;
    }

    /** Sets why the job has failed, for when it is released. */
    public function setReason(\Throwable $e): void
    {
        $this->reason = $e::class . ': ' . $e->getMessage();
    }

    /** Notes that the next job of its chain takes its key, and so deletes this one. */
    public function replaced(): void
    {
        $this->replaced = true;
    }

    private function finish(\Closure $finish): void
    {
        if ($this->replaced) {
            return;
        }
        try {
            $finish();
        } catch (NotFoundException $e) {
            if ($this->container->bound('log')) {
                $this->container->make('log')->warning("redstalk: job {$this->job->id} is no longer reserved by this worker: retry_after was over, or it was deleted");
            }
        }
    }
}
