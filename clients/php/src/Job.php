<?php

declare(strict_types=1);

namespace Redstalk;

use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\UnavailableException;
use Redstalk\Exception\UnknownOutcomeException;
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
        $this->finish('delete', '', 'DELETED');
    }

    /** Starts the TTR again. */
    public function touch(): void
    {
        $this->finish('touch', '', 'TOUCHED');
    }

    /**
     * Gives the job back, because it has failed.
     *
     * @param int $delay seconds; 0 leaves it to the retry waits of the job or its tube, if there are any
     * @param string $reason why; beanstalkd does not keep it
     */
    public function release(int $delay = 0, string $reason = ''): void
    {
        $this->finish('release', sprintf(' %d %d', $this->stats()->priority, max($delay, 0)), 'RELEASED', $this->reason($reason));
    }

    /** Sets the job aside until it is kicked. */
    public function bury(string $reason = ''): void
    {
        $this->finish('bury', ' ' . $this->stats()->priority, 'BURIED', $this->reason($reason));
    }

    /** Makes the job ready again at once. With redstalk that is no failure, and the delivery does not count. */
    public function giveBack(): void
    {
        $this->finish('release', sprintf(' %d 0', $this->stats()->priority), 'RELEASED', ' failure:no');
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

    /** Sends a command about the reservation. Tags are left out if the server lacks them. */
    private function finish(string $verb, string $args, string $word, string $tags = ''): void
    {
        if ($this->lease === '') {
            $this->finishOnHolder("$verb $this->id$args", $tags)->expect($verb, $word);

            return;
        }
        $this->client->exec(fn (Connection $c) => new Command(
            "$verb-lease $this->id $this->lease$args" . (isset($c->capabilities['reason']) ? $tags : ''),
            needs: 'lease',
            repeat: true,
        ))->expect($verb, $word);
    }

    private function finishOnHolder(string $line, string $tags): Reply
    {
        if ($this->holder === null) {
            return $this->client->exec(new Command($line));
        }
        if ($this->holder->busy) {
            throw new UnavailableException("the connection to which job $this->id belongs is in use"); // by what a signal has interrupted
        }
        if (!$this->holder->usable()) {
            throw new NotFoundException("job $this->id has gone back, since its connection was lost");
        }
        try {
            return $this->holder->exchange([new Command($line . (isset($this->holder->capabilities['reason']) ? $tags : ''))])[0];
        } catch (ConnectionLost $e) {
            throw new UnknownOutcomeException("$line: " . $e->getMessage(), previous: $e);
        }
    }
}
