<?php

declare(strict_types=1);

namespace Redstalk\Internal;

use Redstalk\Cancelled;
use Redstalk\Client;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Job;
use Redstalk\WorkerJob;

/**
 * @internal The signals of a worker, and what has to be done while a handler runs: heartbeats, its time limit, the end of the worker.
 *
 * PHP runs signal handlers between two instructions, or in a wait of Connection. They come by pcntl_alarm, which counts whole seconds.
 */
final class Watch
{
    /** Seconds that a handler still has when its time is over, or the worker ends. */
    private const GRACE = ['timeout' => 10.0, 'shutdown' => 1.0];

    private const BETWEEN_PROGRESS = 1.0;

    private readonly int $process;

    /** Whether user code runs, so that an exception can be thrown in it. */
    private bool $running = false;

    private bool $stopping = false;

    /** When the handler must end because the worker does. */
    private float $deadline = INF;

    private ?Job $job = null;

    /** Why the handler is to end; empty if it is not. */
    private string $cause = '';

    /** Whether the next SIGALRM throws the cause in the handler. */
    private bool $telling = false;

    /** The TTR, when it started, or earlier; and when it is started again. */
    private int $ttr = 1;
    private float $touched = 0;
    private float $nextTouch = INF;

    /** When the time of the handler is over. */
    private float $limit = INF;

    /** When the job is settled, whatever its handler does. */
    private float $giveUp = INF;

    /** A progress that was not sent yet, and when one was sent last. */
    private ?string $progress = null;
    private float $shown = 0;

    /** @var array<int, mixed> the handlers of signals before */
    private array $before = [];

    public function __construct(
        private readonly Client $client,
        private readonly Settler $settler,
        private readonly float $timeout,
        private readonly float $shutdownTimeout,
    ) {
        $this->process = getmypid();
    }

    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    public function isStopping(): bool
    {
        return $this->stopping;
    }

    /** Takes over the signals. */
    public function start(): void
    {
        register_shutdown_function($this->endOfProcess(...));
        if (!self::hasSignals()) {
            $this->settler->log('warning', 'PHP has no pcntl: a signal ends the worker at once, and there are neither heartbeats nor time limits');

            return;
        }
        foreach ([SIGTERM, SIGINT, SIGALRM] as $signal) {
            $this->before[$signal] = pcntl_signal_get_handler($signal);
        }
        $this->listen();
    }

    /** Gives the signals back. */
    public function end(): void
    {
        foreach ($this->before as $signal => $handler) {
            pcntl_signal($signal, $handler);
        }
        $this->before = [];
    }

    /** Does what the first signal does; at the second call, what the second one does. */
    public function stop(): void
    {
        $this->deadline = self::now() + ($this->stopping ? 0 : $this->shutdownTimeout);
        $this->stopping = true;
        $this->client->interrupt();
        $this->schedule();
    }

    /**
     * Calls a handler for a job, and settles that.
     *
     * @param float $reserved when the TTR started, or earlier
     * @param callable(WorkerJob): mixed $handler
     */
    public function handle(Job $job, WorkerJob $given, float $reserved, callable $handler): void
    {
        $this->job = $job;
        [$this->cause, $this->telling, $this->progress, $this->shown, $this->giveUp] = ['', false, null, 0, INF];
        $this->ttr = max($job->stats()->ttr, 1);
        $this->wasTouched($reserved);
        $this->limit = $this->timeout > 0 ? self::now() + $this->timeout : INF;
        $this->listen(); // whatever the handler before has done
        $result = $error = null;
        try {
            try {
                $this->running = true;
                $this->schedule();
                $result = $handler($given);
            } finally {
                $this->running = false;
            }
            if ($result instanceof \Generator) {
                throw new \UnexpectedValueException('the handler is a generator, so nothing of it has run');
            }
        } catch (\Throwable $error) {
        }
        if (getmypid() !== $this->process) {
            exit($error === null ? 0 : 1); // a process that the handler has forked: only its parent settles the job
        }
        $this->schedule();
        $this->settle($error, $result);
    }

    /** Carries out what starts the TTR again. */
    public function send(\Closure $do): void
    {
        $sent = self::now();
        $do();
        $this->wasTouched($sent);
    }

    public function progress(string $text): void
    {
        $this->progress = $text;
        if (self::now() >= $this->shown + self::BETWEEN_PROGRESS) {
            $this->touch();
            $this->throwCause();
        }
        $this->schedule();
    }

    /** Changes how long the handler can still run; 0 is no limit. */
    public function limit(float $seconds): void
    {
        $this->limit = self::seconds($seconds) > 0 ? self::now() + $seconds : INF;
        $this->schedule();
    }

    /** Returns a number of seconds that can be a limit. */
    public static function seconds(float $seconds): float
    {
        return $seconds >= 0 && $seconds < INF ? $seconds : throw new InvalidArgumentException("a limit of $seconds seconds");
    }

    /** Notes why the handler is to end, and returns what it gets to know that by. */
    public function cancel(string $cause): Cancelled
    {
        if ($this->cause === '') {
            $this->cause = $cause;
            $this->telling = false;
            $this->giveUp = self::now() + (self::GRACE[$cause] ?? INF);
            $this->nextTouch = $cause === 'lost' ? INF : $this->nextTouch;
        }

        return new Cancelled($this->cause);
    }

    private static function hasSignals(): bool
    {
        return function_exists('pcntl_alarm') && function_exists('pcntl_signal') && function_exists('pcntl_async_signals');
    }

    private function listen(): void
    {
        if ($this->before !== []) {
            pcntl_async_signals(true);
            foreach (array_keys($this->before) as $signal) {
                pcntl_signal($signal, $this->received(...));
            }
        }
    }

    private function received(int $signal): void
    {
        if (getmypid() !== $this->process) { // that a handler has forked
            exit(128 + $signal);
        }
        $signal === SIGALRM ? $this->tick() : $this->stop();
    }

    /** Does what is due, and throws an exception in the handler if it is to end now. */
    private function tick(): void
    {
        if (!$this->running) {
            return;
        }
        if ($this->telling) {
            $this->throwCause();
        }
        $now = self::now();
        $canceled = $this->cause;
        if ($now >= $this->patience()) {
            $this->giveUp();
        } elseif ($canceled === '' && $now >= min($this->deadline, $this->limit)) {
            $this->cancel($now >= $this->deadline ? 'shutdown' : 'timeout');
        }
        if ($now + 1 > $this->nextTouch || $this->progress !== null && $now >= $this->shown + self::BETWEEN_PROGRESS) {
            $this->touch();
        }
        $this->telling = $canceled === '' && $this->cause !== '';
        $this->schedule();
        if ($this->telling) {
            $this->throwSoon();
        }
    }

    /**
     * Throws the cause by a SIGALRM of its own, when the handlers of other signals have run: an exception in a signal handler makes PHP drop what came
     * until then, and that can be the SIGTERM that ends the worker.
     */
    private function throwSoon(): void
    {
        while (function_exists('pcntl_sigtimedwait') && @pcntl_sigtimedwait([SIGTERM, SIGINT]) > 0) { // PHP blocks them now
            $this->stop();
        }
        if (!function_exists('posix_kill')) {
            $this->throwCause();
        }
        posix_kill($this->process, SIGALRM);
    }

    /** Returns until when a handler that was told to end can go on. */
    private function patience(): float
    {
        return match ($this->cause) {
            '' => INF,
            'shutdown' => $this->giveUp,
            default => min($this->giveUp, $this->deadline + self::GRACE['shutdown']),
        };
    }

    private function throwCause(): void
    {
        if ($this->cause !== '') {
            $this->telling = false;
            throw new Cancelled($this->cause);
        }
    }

    /** Asks for SIGALRM when something is due. */
    private function schedule(): void
    {
        if ($this->before === []) {
            return;
        }
        $due = INF;
        if ($this->running) {
            $next = match (true) {
                $this->telling => 0,
                $this->cause === '' => min($this->deadline, $this->limit),
                default => $this->patience(),
            };
            $next = min($next, $this->progress === null ? INF : $this->shown + self::BETWEEN_PROGRESS);
            $due = min(ceil($next - self::now()), floor($this->nextTouch - self::now()));
        }
        pcntl_alarm($due === INF ? 0 : (int) max(min($due, 3600), 1));
    }

    private function touch(): void
    {
        if ($this->job === null) {
            return;
        }
        $progress = $this->progress;
        $sent = self::now();
        try {
            $this->client->withoutWaiting(fn () => $this->job->touch($progress));
            $this->shown = $progress === null ? $this->shown : $sent;
            $this->progress = $this->progress === $progress ? null : $this->progress;
            $this->wasTouched($sent);
        } catch (NotFoundException) {
            $this->cancel('lost');
        } catch (UnsupportedException) {
            $this->progress = null; // which this server cannot show
        } catch (RedstalkException $e) {
            $this->settler->log('info', "cannot touch job {$this->job->id}: " . $e->getMessage());
            $this->nextTouch = self::now() + max($this->ttr / 10, 1);
            $this->shown = $sent;
            if (self::now() >= $this->touched + $this->ttr) {
                $this->cancel('lost');
            }
        }
    }

    private function wasTouched(float $sent): void
    {
        $this->touched = $sent;
        $this->nextTouch = $sent + $this->ttr / 3;
    }

    private function giveUp(): void
    {
        if ($this->job !== null) {
            $this->settler->log('error', "the handler of job {$this->job->id} goes on after its $this->cause");
            $this->settle(new Cancelled($this->cause));
        }
        $this->giveUp = $this->nextTouch = INF;
        if (self::now() >= $this->deadline) {
            exit(1);
        }
    }

    /** Settles the job, unless that was done. */
    private function settle(?\Throwable $error, mixed $result = null): void
    {
        [$job, $this->job] = [$this->job, null];
        if ($job === null) {
            return;
        }
        if ($error !== null && $this->progress !== null && $this->cause !== 'lost') {
            try {
                $this->client->withoutWaiting(fn () => $job->touch($this->progress));
            } catch (RedstalkException) {
            }
        }
        $until = $this->touched + $this->ttr;
        $this->settler->settle($job, $this->cause, $error, $result, fn () => self::now() < min($until, $this->deadline));
    }

    /** Says that a job has failed whose handler has ended the process. */
    private function endOfProcess(): void
    {
        if (getmypid() !== $this->process || $this->job === null) {
            return;
        }
        ini_set('memory_limit', '-1'); // it may be exhausted
        $this->running = false;
        $last = error_get_last();
        $fatal = ($last['type'] ?? 0) & (E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR);
        $this->settle(new \RuntimeException($fatal ? strtok($last['message'], "\n") : 'the handler has ended the process'));
    }
}
