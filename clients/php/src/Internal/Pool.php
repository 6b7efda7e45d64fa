<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Psr\Log\LoggerInterface;
use Redstalk\Exception\RedstalkException;
use Redstalk\Exception\ServerException;
use Redstalk\Exception\UnavailableException;
use Redstalk\Exception\UnknownOutcomeException;

/**
 * @internal Sends commands over connections, and again while that cannot do harm.
 *
 * There is one connection, and a second one for a signal handler that sends a command while the first one is busy.
 */
final class Pool
{
    /** How often a command is sent again after its reply was lost. */
    private const REPEATS = 5;

    /** The first and the longest wait between attempts, in seconds. It doubles, and up to half of it is left out at random. */
    private const FIRST_PAUSE = 0.02;
    private const LONGEST_PAUSE = 2.0;

    /** @var list<Connection> */
    private array $connections = [];

    /** Whether reserves wait no more. */
    public bool $interrupted = false;

    /** @param float $timeout how many seconds to wait for a connection */
    public function __construct(
        private readonly Dialer $dialer,
        public float $timeout,
        private readonly LoggerInterface $logger,
    ) {
    }

    public function __clone()
    {
        $this->connections = [];
        $this->interrupted = false;
    }

    /**
     * Returns a connection that can be used. It waits for one until a time, which it sets if it is null.
     *
     * @param bool $reserve whether interrupt() ends the wait
     * @throws RedstalkException Unavailable, Unauthorized
     */
    public function connection(?float &$until = null, bool $reserve = false): Connection
    {
        foreach ($this->connections as $connection) {
            if ($connection->usable()) {
                return $connection;
            }
        }
        $this->connections = array_values(array_filter($this->connections, fn ($c) => $c->open));
        $until ??= self::now() + $this->timeout;
        for ($failures = 1;; $failures++) {
            try {
                return $this->connections[] = $this->dialer->dial();
            } catch (ConnectionLost $e) {
                if (self::now() >= $until || $reserve && $this->interrupted) {
                    throw new UnavailableException($e->getMessage(), previous: $e);
                }
                $this->pause($failures);
            }
        }
    }

    /** Ends a reserve that waits, and makes later ones not wait. For signal handlers. */
    public function interrupt(): void
    {
        $this->interrupted = true;
        foreach ($this->connections as $connection) {
            $connection->interrupt();
        }
    }

    public function close(): void
    {
        foreach ($this->connections as $connection) {
            $connection->close();
        }
        $this->connections = [];
    }

    /**
     * Sends commands over one connection at a time, without waiting for each reply. Each has a result, with the same index.
     *
     * @param array<int, Command|\Closure(Connection): Command> $commands or what makes them for a connection
     * @param bool $reserve whether interrupt() ends the wait for a connection
     * @return array<int, Reply|RedstalkException>
     */
    public function exchange(array $commands, bool $reserve = false): array
    {
        $results = [];
        $until = null;
        for ($lost = 0; $commands !== []; $this->pause($lost)) {
            $failed = false;
            try {
                $new = $this->try($this->connection($until, $reserve), $commands, $lost >= self::REPEATS, $failed);
            } catch (RedstalkException $e) {
                $new = array_fill_keys(array_keys($commands), $e);
            }
            if ($failed) {
                $until = null;
                $lost++;
            }
            $results += $new;
            $commands = array_diff_key($commands, $new);
        }

        return $results;
    }

    /**
     * Sends commands once, and returns the results of those that are not to be sent again.
     *
     * @param array<int, Command|\Closure(Connection): Command> $commands
     * @param bool $last whether none is to be sent again after it failed
     * @param bool $failed whether replies are missing, or the server failed
     * @return array<int, Reply|RedstalkException>
     */
    private function try(Connection $connection, array $commands, bool $last, bool &$failed): array
    {
        $results = $sent = $replies = [];
        $lost = null;
        try {
            foreach ($commands as $i => $command) {
                try {
                    $made = $command instanceof Command ? $command : $command($connection);
                    $connection->check($made);
                    $sent[$i] = $made;
                } catch (RedstalkException $e) {
                    $results[$i] = $e;
                }
            }
            $replies = $sent === [] ? [] : $connection->exchange(array_values($sent));
        } catch (ConnectionLost $lost) {
            $this->logger->info('redstalk: '.$lost->getMessage());
            $this->dialer->failed($connection->address); // so that another one is tried first
            $replies = $lost->replies;
            $failed = $lost->sent;
        }
        foreach (array_keys($sent) as $n => $i) {
            $reply = $replies[$n] ?? null;
            $failed = $failed || $reply?->word === 'INTERNAL_ERROR';
            $results[$i] = $this->result($sent[$i], $reply, $lost, $connection, $last);
        }

        return array_filter($results) + ($last && $failed ? array_map(fn () => new UnavailableException((string) $lost?->getMessage()), $commands) : []);
    }

    /** Returns the result of a command, or null if it is to be sent again. */
    private function result(Command $command, ?Reply $reply, ?ConnectionLost $lost, Connection $connection, bool $last): Reply|RedstalkException|null
    {
        if ($reply === null && !$lost->sent) {
            return null;
        }
        if ($reply === null || $reply->word === 'INTERNAL_ERROR') {
            $cause = $lost ?? new ServerException("$connection->address replied INTERNAL_ERROR");

            return $command->repeat && !$last ? null : self::unknown($command, $cause);
        }
        $connection->accepted = $connection->accepted || $command->body !== null && $reply->word === 'INSERTED';
        if ($reply->word === 'DRAINING' && $command->body !== null && ($this->dialer->failed($connection->address) || $connection->accepted)) {
            $connection->close(); // another server accepts the put

            return null;
        }

        return $reply;
    }

    private static function unknown(Command $command, \Exception $cause): RedstalkException
    {
        $class = $command->changes ? UnknownOutcomeException::class : UnavailableException::class;

        return new $class($command->verb() . ': ' . $cause->getMessage(), previous: $cause);
    }

    /** Waits, longer after more failures. */
    private function pause(int $failures): void
    {
        if ($failures > 0) {
            $longest = min(self::FIRST_PAUSE * 2 ** min($failures - 1, 10), self::LONGEST_PAUSE);
            usleep((int) ($longest * random_int(500_000, 1_000_000)));
        }
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
