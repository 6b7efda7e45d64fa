<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\JobTooBigException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\UnavailableException;
use Redstalk\Exception\UnknownOutcomeException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Internal\Command;
use Redstalk\Internal\Connection;
use Redstalk\Internal\ConnectionLost;
use Redstalk\Internal\Reply;
use Redstalk\Internal\Text;

/**
 * A job that was reserved.
 *
 * Its methods throw a NotFoundException if it is no longer reserved by this object: its TTR is over, or somebody has deleted it.
 *
 * With redstalk it has a lease, so it is finished over any connection, and a command whose reply is lost is sent again; then a
 * NotFoundException can mean that the first one was carried out. With beanstalkd it belongs to a connection, and goes back when that is lost.
 */
final class Job
{
    private ?JobStats $stats = null;

    /** The last checkpoint as JSON; empty if there is none, null if that was not asked yet. */
    private ?string $saved = null;

    /**
     * @internal
     *
     * @param string $lease a token that grows with each delivery (fencing token); empty with beanstalkd
     * @param ?string $info JSON from the server
     * @param ?Connection $holder the connection to which a job without a lease belongs; null if it is not reserved
     */
    public function __construct(
        private readonly Client $client,
        public readonly int $id,
        public readonly string $body,
        public readonly string $lease = '',
        private readonly ?string $info = null,
        private readonly ?Connection $holder = null,
    ) {
    }

    /** Deletes the job: it is done. */
    public function delete(): void
    {
        $this->settle('delete', '', 'DELETED');
    }

    /**
     * Deletes the job with a result, for who waits for it: text as it is, anything else as JSON. Without a result, and if no record of the job is
     * kept, it is just deleted.
     *
     * @throws JobTooBigException if the result is longer than 64 KiB; then the job is still reserved
     * @throws InvalidArgumentException if it is no JSON, also then
     */
    public function finish(mixed $result = null): void
    {
        if ($result === null || !$this->isFinished(is_string($result) ? $result : Text::json($result))) {
            $this->delete();
        }
    }

    /**
     * Starts the TTR again.
     *
     * @param ?string $progress how far the job is, in at most 256 bytes: stats() and lists show it until the job is reserved again
     * @throws UnsupportedException if the server cannot show a progress
     */
    public function touch(?string $progress = null): void
    {
        $tag = $progress === null ? '' : ' progress:' . Text::quote($progress);
        $this->send('touch', $tag, needs: $progress === null ? '' : 'progress')->expect('touch', 'TOUCHED');
    }

    /**
     * Saves a value as JSON, at most 64 KiB, instead of the one before, and starts the TTR again; null removes it. The next delivery begins with it, also if
     * this process or the server is killed now.
     *
     * @throws JobTooBigException then the one before is still there, as after an OutOfMemoryException
     * @throws InvalidArgumentException if it is no JSON
     * @throws UnsupportedException if the server has no checkpoints
     */
    public function checkpoint(mixed $value): void
    {
        $text = $value === null ? '' : Text::json($value);
        $this->send('checkpoint', ' ' . strlen($text), needs: 'checkpoint', body: $text)->expect('checkpoint', 'SAVED');
        $this->saved = $text;
    }

    /**
     * Returns what was saved last, in this delivery or one before, with objects as arrays; null if there is nothing.
     *
     * @throws InvalidArgumentException if it is no JSON, as another client can save it
     */
    public function lastCheckpoint(): mixed
    {
        $this->saved ??= $this->readCheckpoint();
        try {
            return $this->saved === '' ? null : json_decode($this->saved, true, flags: JSON_THROW_ON_ERROR);
        } catch (\JsonException $e) {
            throw new InvalidArgumentException("the checkpoint of job $this->id is no JSON", previous: $e);
        }
    }

    /**
     * Gives the job back, because it has failed.
     *
     * @param int $delay seconds; 0 leaves it to the retry waits of the job or its tube, if there are any
     * @param string $reason why; beanstalkd does not keep it
     */
    public function release(int $delay = 0, string $reason = ''): void
    {
        $this->settle('release', sprintf(' %d %d', $this->stats()->priority, max($delay, 0)), 'RELEASED', $this->reason($reason));
    }

    /**
     * Gives the job back, because it has failed. If neither the job nor its tube has retry waits it comes again as in the workers of the
     * other languages: after 1 s, 2 s, 4 s up to an hour, and up to a tenth longer or shorter.
     *
     * @param string $reason why; beanstalkd does not keep it
     */
    public function fail(string $reason = ''): void
    {
        $stats = $this->stats();
        $wait = min(2 ** min($stats->failures, 40), 3600) * random_int(900, 1100) / 1000;
        $this->release($stats->retry === null ? (int) ceil($wait) : 0, $reason);
    }

    /** Sets the job aside until it is kicked. */
    public function bury(string $reason = ''): void
    {
        $this->settle('bury', ' ' . $this->stats()->priority, 'BURIED', $this->reason($reason));
    }

    /**
     * Makes the job ready again, since it is not finished. With redstalk that is no failure, and the delivery does not count.
     *
     * @param int $delay seconds
     */
    public function giveBack(int $delay = 0): void
    {
        $this->settle('release', sprintf(' %d %d', $this->stats()->priority, max($delay, 0)), 'RELEASED', ' failure:no');
    }

    /** Returns what the server knew about the job when it delivered it, or when it was first asked. */
    public function stats(): JobStats
    {
        if ($this->stats === null) {
            $info = $this->info === null ? [] : json_decode($this->info, true, flags: JSON_BIGINT_AS_STRING);
            $this->stats = isset($info['tube'])
                ? new JobStats(['id' => $this->id] + $info)
                : (new Inspector($this->client))->job($this->id);
        }

        return $this->stats;
    }

    private function reason(string $text): string
    {
        return $text === '' ? '' : ' reason:' . Text::quote(Text::reason($text));
    }

    /** Returns the checkpoint that came with the job, or asks for it if it is too long for that. It can be missing only if the job has gone. */
    private function readCheckpoint(): string
    {
        $stats = $this->stats();

        return match (true) {
            isset($stats->all['checkpoint']) => base64_decode($stats->all['checkpoint']),
            $stats->checkpointBytes === 0 => '',
            default => $this->client->getCheckpoint($this->id) ?? throw new NotFoundException("job $this->id is no longer reserved"),
        };
    }

    /** Finishes the job. Returns false if no record of it is kept, or the server keeps none; then nothing has happened. */
    private function isFinished(string $result): bool
    {
        try {
            $reply = $this->send('finish', ' ' . strlen($result), needs: 'results', body: $result);
        } catch (UnsupportedException) {
            return false;
        }

        return $reply->expect('finish', 'FINISHED', 'NOT_KEPT')->word === 'FINISHED';
    }

    private function settle(string $verb, string $args, string $word, string $tags = ''): void
    {
        $this->send($verb, $args, $tags)->expect($verb, $word);
    }

    /** Sends a command about the reservation. Tags are left out if the server lacks them. */
    private function send(string $verb, string $args, string $tags = '', string $needs = '', ?string $body = null): Reply
    {
        if ($this->lease === '') {
            return $this->sendToHolder("$verb $this->id$args", $tags, $needs, $body);
        }

        return $this->client->exec(fn (Connection $c) => new Command(
            "$verb-lease $this->id $this->lease$args" . (isset($c->capabilities['reason']) ? $tags : ''),
            $body,
            needs: $needs ?: 'lease',
            repeat: true,
        ));
    }

    private function sendToHolder(string $line, string $tags, string $needs, ?string $body): Reply
    {
        if ($this->holder === null) {
            return $this->client->exec(new Command($line, $body, needs: $needs));
        }
        if ($this->holder->busy) {
            throw new UnavailableException("the connection to which job $this->id belongs is in use"); // by what a signal has interrupted
        }
        if (!$this->holder->usable()) {
            throw new NotFoundException("job $this->id has gone back, since its connection was lost");
        }
        $command = new Command($line . (isset($this->holder->capabilities['reason']) ? $tags : ''), $body, needs: $needs);
        $this->holder->check($command);
        try {
            return $this->holder->exchange([$command])[0];
        } catch (ConnectionLost $e) {
            throw new UnknownOutcomeException("$line: " . $e->getMessage(), previous: $e);
        }
    }
}
