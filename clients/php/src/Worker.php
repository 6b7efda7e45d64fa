<?php

declare(strict_types=1);

namespace Redstalk;

use Psr\Log\LoggerInterface;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Internal\Settler;
use Redstalk\Internal\StderrLogger;
use Redstalk\Internal\Text;
use Redstalk\Internal\Watch;

/**
 * Takes jobs from tubes and calls a handler for each, one at a time. Start as many processes as you need.
 *
 * A handler that returns has done the job; what it returns is the result, as JSON. Whatever it throws is a failure of the job, but Skip, Snooze and NotFinished.
 * If it ends the process, as exit() and a lack of memory do, that is a failure of the job, too.
 *
 * With the extension pcntl the worker stops at SIGTERM or SIGINT, touches the job at each third of its TTR, and ends a handler whose time is over. A handler
 * that waits in C for longer than the TTR, as in a query, is not touched meanwhile; and each heartbeat ends a sleep().
 */
final class Worker
{
    /** How many seconds a reserve waits. */
    private const WAIT = 30;

    /** How long it waits after a reserve has failed, in microseconds. */
    private const PAUSE = 1_000_000;

    /** @var array<string, int> tubes and their weights */
    private array $tubes = [];

    /** @var array<string, callable(WorkerJob): mixed> handlers by type */
    private array $byType = [];

    /** @var array<string, callable(WorkerJob): mixed> handlers by tube */
    private array $byTube = [];

    private readonly LoggerInterface $logger;

    private ?Watch $watch = null;

    /**
     * @param Client $client whose servers it uses, over connections of its own
     * @param string|array<int|string, int|string> $tubes a name, names, or names with weights: ['urgent' => 6, 'bulk' => 1]; without any, "default"
     * @param ?\Closure(int): (int|float|null) $backoff takes the number of failures, at least 1, and returns how many seconds to wait, or null to bury the job; for
     *                                                  jobs without retry waits. By default it is after 1 s, 2 s, 4 s up to an hour
     * @param float $timeout how many seconds a handler can run; 0 is no limit. Then it gets a Cancelled
     * @param float $shutdownTimeout how many seconds it has after a signal
     * @param int $maxJobs after how many jobs the worker ends; 0 for never
     * @param int $maxTime after how many seconds it ends, between two jobs; 0 for never
     * @param int $memory after a job it ends if the process has so many MiB; 0 for never
     * @param bool $stopWhenEmpty it ends when no job is ready
     * @param ?LoggerInterface $logger null: warnings and errors go to stderr
     */
    public function __construct(
        private readonly Client $client,
        string|array $tubes = [],
        private readonly ?\Closure $backoff = null,
        private readonly float $timeout = 1800,
        private readonly float $shutdownTimeout = 25,
        private readonly int $maxJobs = 0,
        private readonly int $maxTime = 0,
        private readonly int $memory = 0,
        private readonly bool $stopWhenEmpty = false,
        ?LoggerInterface $logger = null,
    ) {
        Watch::seconds($timeout);
        Watch::seconds($shutdownTimeout);
        $this->logger = $logger ?? new StderrLogger();
        foreach ((array) $tubes as $key => $value) {
            $this->add((string) (is_string($key) ? $key : $value), is_string($key) ? (int) $value : 1);
        }
    }

    /**
     * Sets the handler of jobs that were put with a type, in any of the tubes.
     *
     * @param callable(WorkerJob): mixed $handler
     */
    public function on(string $type, callable $handler): self
    {
        if ($type === '') {
            throw new InvalidArgumentException('a type is empty');
        }
        $this->byType[$type] = $handler;

        return $this;
    }

    /**
     * Sets the handler of a tube: for jobs without a type, and those whose type has no handler.
     *
     * @param callable(WorkerJob): mixed $handler
     */
    public function tube(string $tube, callable $handler): self
    {
        $this->add($tube, $this->tubes[$tube] ?? 1);
        $this->byTube[$tube] = $handler;

        return $this;
    }

    /** Makes run() return, as a signal does: after the job that it has. */
    public function stop(): void
    {
        $this->watch?->stop();
    }

    /** Works until a signal comes, or one of the limits is reached. While no jobs can be taken, that is logged. */
    public function run(): void
    {
        $client = clone $this->client;
        $settler = new Settler($client, $this->backoff, $this->logger);
        $this->watch = new Watch($client, $settler, $this->timeout, $this->shutdownTimeout);
        $end = Watch::now() + ($this->maxTime ?: INF);
        $this->watch->start();
        try {
            for ($jobs = 0; !$this->isOver($jobs, $end);) {
                $sent = Watch::now();
                $wait = $this->stopWhenEmpty ? 0 : (int) ceil(min(self::WAIT, $end - $sent));
                $job = $this->reserve($client, $settler, $wait);
                if ($job !== null) {
                    $this->process($job, $sent, $settler);
                    $jobs++;
                } elseif ($this->stopWhenEmpty) {
                    break;
                }
            }
        } finally {
            $this->watch->end();
            $this->watch = null;
            $client->close();
        }
    }

    private function isOver(int $jobs, float $end): bool
    {
        return $this->watch->isStopping() || $this->maxJobs > 0 && $jobs >= $this->maxJobs || Watch::now() >= $end
            || $this->memory > 0 && memory_get_usage(true) >= $this->memory << 20;
    }

    private function reserve(Client $client, Settler $settler, int $wait): ?Job
    {
        $tubes = $this->tubes ?: ['default' => 1];
        try {
            return $client->reserve(count(array_unique($tubes)) > 1 ? $tubes : array_map(strval(...), array_keys($tubes)), $wait);
        } catch (RedstalkException $e) {
            if (!$this->watch->isStopping()) {
                $settler->log('error', 'cannot take jobs: ' . $e->getMessage());
                usleep(self::PAUSE);
            }

            return null;
        }
    }

    /** @param float $sent when the job was asked for */
    private function process(Job $job, float $sent, Settler $settler): void
    {
        try {
            $given = new WorkerJob($job, $this->watch);
            if ($this->watch->isStopping()) {
                $job->giveBack();

                return;
            }
            if (Watch::now() - $sent > max($job->stats()->ttr, 1) / 3) {
                $sent = Watch::now();
                $job->touch(); // a part of its TTR may be over
            }
        } catch (RedstalkException $e) {
            $settler->log($e instanceof NotFoundException ? 'info' : 'warning', "job $job->id is not handled, so it comes again: " . $e->getMessage());

            return;
        }
        $handler = $this->byType[$given->type ?? ''] ?? $this->byTube[$given->stats->tube] ?? self::unknown(...);
        $this->watch->handle($job, $given, $sent, $handler);
    }

    private static function unknown(WorkerJob $job): never
    {
        throw new Skip('no handler for this job: ' . ($job->type === null ? 'it has no type' : "its type is $job->type"));
    }

    private function add(string $tube, int $weight): void
    {
        if ($weight < 1) {
            throw new InvalidArgumentException("a weight of $weight");
        }
        $this->tubes[Text::tube($tube)] = $weight;
    }
}
