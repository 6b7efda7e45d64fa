<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Psr\Log\LoggerInterface;
use Redstalk\Client;
use Redstalk\Exception;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Job;
use Redstalk\NotFinished;
use Redstalk\Skip;
use Redstalk\Snooze;

/** @internal Does what the result of a handler means. Whatever user code throws here is a failure of the job. */
final class Settler
{
    private const LONGEST_RESULT = 64 << 10;

    /** After these the next attempt can succeed; everything else is refused for good. */
    private const PASSING = [
        Exception\UnavailableException::class, Exception\UnknownOutcomeException::class, Exception\ServerException::class,
        Exception\OutOfMemoryException::class, Exception\DrainingException::class,
    ];

    /** The longest wait of a job, in seconds. */
    private const LONGEST_WAIT = 0xFFFFFFFF;

    /** The longest wait between two attempts, in microseconds. */
    private const PAUSE = 500_000;

    /** @param ?\Closure(int): (int|float|null) $backoff */
    public function __construct(private readonly Client $client, private readonly ?\Closure $backoff, private readonly LoggerInterface $logger)
    {
    }

    /**
     * @param string $cause why the handler was to end, see Cancelled; empty if it was not
     * @param \Closure(): bool $again whether there is time for another attempt
     */
    public function settle(Job $job, string $cause, ?\Throwable $error, mixed $result, \Closure $again): void
    {
        if ($cause === 'lost') {
            $this->log('warning', "job $job->id was lost before its handler ended" . ($error === null ? '' : ': ' . self::text($error)));

            return;
        }
        try {
            $do = match (true) {
                $error === null => $this->done($job, $result),
                $error instanceof Skip => $this->bury($job, $error->getMessage()),
                $error instanceof Snooze => fn () => $job->giveBack(min(max($error->seconds, 1), self::LONGEST_WAIT)),
                $error instanceof NotFinished, $cause === 'shutdown' => fn () => $job->giveBack(),
                default => $this->failure($job, $cause === 'timeout' ? 'timeout' : self::text($error)),
            };
        } catch (\Throwable $fault) {
            $do = fn () => $job->fail(self::text($fault));
        }
        $this->carryOut($job, $do, $again);
    }

    /** Writes to the log, which can be user code. */
    public function log(string $level, string $text): void
    {
        try {
            $this->logger->log($level, "redstalk: $text");
        } catch (\Throwable) {
        }
    }

    /** Returns the class and the message of an exception. */
    public static function text(\Throwable $e): string
    {
        try {
            return $e::class . ': ' . $e->getMessage();
        } catch (\Throwable) {
            return $e::class;
        }
    }

    private function done(Job $job, mixed $result): \Closure
    {
        if ($result === null) {
            return fn () => $job->delete();
        }
        $text = '';
        try {
            $text = Text::json($result);
            $fault = strlen($text) > self::LONGEST_RESULT ? 'it has ' . strlen($text) . ' bytes' : '';
        } catch (\Throwable $e) {
            $fault = self::text($e);
        }
        if ($fault !== '') {
            $this->log('warning', "job $job->id is done without its result: $fault");
        }

        return fn () => $job->finish($fault === '' ? $text : '');
    }

    private function bury(Job $job, string $reason): \Closure
    {
        $this->log('warning', "job $job->id is buried: $reason");

        return fn () => $job->bury($reason);
    }

    private function failure(Job $job, string $reason): \Closure
    {
        $this->log('warning', "job $job->id has failed: $reason");
        if ($this->backoff === null || $job->stats()->retry !== null) {
            return fn () => $job->fail($reason);
        }
        try {
            $wait = ($this->backoff)($job->stats()->failures + 1);
            if ($wait !== null && (!is_int($wait) && !is_float($wait) || !($wait >= 0 && $wait <= self::LONGEST_WAIT))) {
                throw new \UnexpectedValueException(get_debug_type($wait));
            }
        } catch (\Throwable $fault) {
            $this->log('error', "the backoff has failed, so job $job->id waits as by default: " . self::text($fault));

            return fn () => $job->fail($reason);
        }

        return fn () => $wait === null ? $job->bury($reason) : $job->release((int) ceil($wait), $reason);
    }

    /** Settles a job. With a lease it tries again until the TTR is over, unless the server refuses for good. */
    private function carryOut(Job $job, \Closure $do, \Closure $again): void
    {
        while (true) {
            try {
                $this->client->withoutWaiting($do); // so that a stop ends the attempts

                return;
            } catch (RedstalkException $e) {
                $passing = in_array($e::class, self::PASSING, true);
                if (!$passing || $job->lease === '' || !$again()) {
                    $level = $e instanceof NotFoundException ? 'info' : ($passing ? 'warning' : 'error');
                    $this->log($level, "cannot settle job $job->id, so it may come again: " . $e->getMessage());

                    return;
                }
            }
            usleep(self::PAUSE);
        }
    }
}
