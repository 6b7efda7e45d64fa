<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Internal\Text;
use Redstalk\Internal\Watch;

/** A job as a handler gets it. The worker finishes it when the handler has returned. */
final class WorkerJob
{
    public readonly int $id;
    public readonly string $body;
    /** Of a job that was put with a type and data; null for others. */
    public readonly ?string $type;
    /** What was put with the type, with objects as arrays. */
    public readonly mixed $data;
    /** What the server knew about the job when it delivered it: key, group, batch, meta, trace, deliveries, failures, reason and so on. */
    public readonly JobStats $stats;

    /** @internal */
    public function __construct(private readonly Job $job, private readonly Watch $watch)
    {
        $this->id = $job->id;
        $this->body = $job->body;
        $this->stats = $job->stats();
        $message = str_starts_with(ltrim($job->body), '{') ? json_decode($job->body, true) : null;
        $typed = is_string($message['type'] ?? null) && $message['type'] !== '';
        $this->type = $typed ? $message['type'] : null;
        $this->data = $typed ? $message['data'] ?? null : null;
    }

    /**
     * Saves a value as JSON, at most 64 KiB, for the next delivery of the job if this one does not end it; null removes it.
     *
     * @throws Cancelled if the job is no longer reserved; nothing is saved
     * @throws RedstalkException JobTooBig, OutOfMemory, Unsupported, Unavailable
     * @throws InvalidArgumentException if it is no JSON
     */
    public function checkpoint(mixed $value): void
    {
        try {
            $this->watch->send(fn () => $this->job->checkpoint($value));
        } catch (NotFoundException) {
            throw $this->watch->cancel('lost');
        }
    }

    /** Returns what was saved last, in this delivery or one before, with objects as arrays; null if there is nothing. */
    public function lastCheckpoint(): mixed
    {
        return $this->job->lastCheckpoint();
    }

    /**
     * Says how far the job is, in at most 256 bytes: '4711/10000', '47 %' or any text. Call it as often as you like: it is sent about once a second,
     * and when the handler fails.
     *
     * @throws InvalidArgumentException
     */
    public function progress(string $text): void
    {
        if (strlen($text) > 256) {
            throw new InvalidArgumentException('a progress of more than 256 bytes');
        }
        Text::quote($text);
        $this->watch->progress($text);
    }

    /** Whether the worker is told to end: a handler that takes long saves a checkpoint and throws NotFinished then. */
    public function isStopping(): bool
    {
        return $this->watch->isStopping();
    }

    /** Changes for how many seconds the handler can still run, from now on; 0 is no limit. */
    public function setTimeout(float $seconds): void
    {
        $this->watch->limit($seconds);
    }
}
