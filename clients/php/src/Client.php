<?php

declare(strict_types=1);

namespace Redstalk;

use Psr\Log\LoggerInterface;
use Psr\Log\NullLogger;
use Redstalk\Exception\DeadlineSoonException;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Exception\UnknownOutcomeException;
use Redstalk\Internal\Command;
use Redstalk\Internal\Connection;
use Redstalk\Internal\Dialer;
use Redstalk\Internal\Page;
use Redstalk\Internal\Pool;
use Redstalk\Internal\Reply;
use Redstalk\Internal\Text;

/**
 * Puts and reserves jobs of a redstalk or beanstalkd server, or of any of several that share their jobs.
 *
 * It connects when it is needed, and again after a connection was lost, with growing waits. A command that was certainly not
 * carried out, or that can be repeated without harm, is sent again by itself. Otherwise a lost reply is an UnknownOutcomeException.
 * A signal handler can use it while it waits for a reply: that goes over another connection.
 */
final class Client
{
    /** How many jobs, and bytes of bodies, putMany sends before it reads the replies. */
    private const GROUP_JOBS = 1000;
    private const GROUP_BYTES = 256 << 10;

    private Pool $pool;

    /**
     * @param string $addresses HOST[:PORT], tls://HOST:PORT or unix:PATH, or several of them with commas, of which all must serve the same jobs
     * @param string $secret of the user; ignored without one
     * @param array<string, mixed> $tls options of PHP's ssl context for tls:// addresses, such as cafile or local_cert
     * @param string $name of the connections in the server's list of them
     * @param float $timeout how many seconds a call waits for a connection
     * @param float $connectTimeout seconds for each attempt
     * @param float $replyTimeout seconds after which a connection whose server does not answer counts as lost
     */
    public function __construct(
        string $addresses = '127.0.0.1:11300',
        string $user = '',
        #[\SensitiveParameter] string $secret = '',
        array $tls = [],
        string $name = '',
        float $timeout = 10,
        float $connectTimeout = 5,
        float $replyTimeout = 10,
        LoggerInterface $logger = new NullLogger(),
    ) {
        $dialer = new Dialer($addresses, $user, $secret, $tls, $name, $connectTimeout, $replyTimeout, $logger);
        $this->pool = new Pool($dialer, $timeout, $logger);
    }

    /** A clone has connections of its own. */
    public function __clone()
    {
        $this->pool = clone $this->pool;
    }

    /**
     * Puts a job into a tube.
     *
     * @throws UnknownOutcomeException if the reply was lost and the options have no key and key-ttl: the job may be there
     * @throws RedstalkException Duplicate, BatchSealed, Draining, JobTooBig, OutOfMemory, Forbidden, InvalidArgument, Unsupported, Unavailable
     */
    public function put(string $tube, string $body, PutOptions $options = new PutOptions()): Receipt
    {
        return self::receipt($this->exec(self::putCommand($tube, $body, $options)));
    }

    /**
     * Puts a job with a type and data as JSON, which workers of all languages handle by its type.
     *
     * @param mixed $data anything that JSON can have
     * @throws RedstalkException as put, and InvalidArgument if there is no type or the data is no JSON
     */
    public function putTyped(string $tube, string $type, mixed $data = null, PutOptions $options = new PutOptions()): Receipt
    {
        if ($type === '') {
            throw new InvalidArgumentException('a type is empty');
        }
        $body = Text::json(['type' => $type, 'data' => $data]);
        $withType = $options->with(meta: $options->meta + ['content-type' => 'application/json']);

        return self::receipt($this->exec(
            fn (Connection $c) => self::putCommand($tube, $body, isset($c->capabilities['meta']) ? $withType : $options)($c),
        ));
    }

    /**
     * Puts any number of jobs over one connection at a time, without waiting for each reply. Each has a result, with the same
     * index, since some can fail while others are put.
     *
     * @param iterable<array{0: string, 1: string, 2?: PutOptions}> $jobs tube, body and options of each
     * @return list<Receipt|RedstalkException>
     */
    public function putMany(iterable $jobs): array
    {
        $results = $group = [];
        $bytes = 0;
        foreach ($jobs as $job) {
            $group[] = $job;
            $bytes += strlen($job[1]);
            if (count($group) >= self::GROUP_JOBS || $bytes >= self::GROUP_BYTES) {
                array_push($results, ...$this->putGroup($group));
                [$group, $bytes] = [[], 0];
            }
        }

        return $group === [] ? $results : [...$results, ...$this->putGroup($group)];
    }

    /**
     * Reserves a job. With redstalk it comes with a lease, which only its TTR ends.
     *
     * @param string|array<int|string, int|string> $tubes a name, names, or names with weights: ['urgent' => 6, 'bulk' => 1]
     * @param int $wait seconds
     * @return ?Job null if none was ready in that time
     * @throws DeadlineSoonException
     */
    public function reserve(string|array $tubes = 'default', int $wait = 0): ?Job
    {
        return $this->reserveBatch($tubes, 1, $wait)[0] ?? null;
    }

    /**
     * Reserves the jobs that are ready, up to a limit, or waits for the first one. With beanstalkd it is at most one.
     *
     * @param string|array<int|string, int|string> $tubes
     * @return list<Job>
     */
    public function reserveBatch(string|array $tubes, int $limit, int $wait = 0): array
    {
        $weights = [];
        foreach ((array) $tubes as $key => $value) {
            $weights[Text::tube((string) (is_string($key) ? $key : $value))] = is_string($key) ? (int) $value : null;
        }
        $end = hrtime(true) / 1e9 + $wait;
        $used = null;
        $reply = $this->exec(function (Connection $c) use ($weights, $limit, $end, &$used) {
            $used = $c;
            $c->watch($weights);
            $left = $this->pool->interrupted ? 0 : (int) max(ceil($end - hrtime(true) / 1e9), 0);
            $line = match (true) {
                isset($c->capabilities['info']) => "reserve-batch $limit $left lease info",
                isset($c->capabilities['lease']) => "reserve-lease $left",
                default => "reserve-with-timeout $left",
            };

            return new Command($line, repeat: true, changes: false, wait: $left);
        }, true)->expect('reserve', 'RESERVED', 'LEASED', 'RESERVED_BATCH', 'TIMED_OUT');

        return array_map(fn ($job) => new Job(
            $this,
            $job['id'],
            $job['body'],
            $job['lease'],
            $job['info'],
            $job['lease'] === '' ? $used : null,
        ), $reply->jobs);
    }

    /**
     * Reserves a job by its id, whatever its state. Also with redstalk it then belongs to the connection, and goes back when that is lost.
     *
     * @return ?Job null if there is no such job, it is reserved, or a limit holds it
     */
    public function reserveJob(int $id): ?Job
    {
        $holder = null;
        $reply = $this->exec(function (Connection $c) use ($id, &$holder) {
            $holder = $c;

            return new Command("reserve-job $id", repeat: true, changes: false);
        });
        if ($reply->word === 'NOT_FOUND') {
            return null;
        }

        return new Job($this, $id, (string) $reply->expect('reserve-job', 'RESERVED')->body, holder: $holder);
    }

    /**
     * Deletes a job that this client has reserved without a lease, and leaves a result of up to 64 KiB. Job::finish does that for any job.
     *
     * @throws RedstalkException NotFound, NotKept, JobTooBig
     */
    public function finish(int $id, string $result): void
    {
        $this->exec(new Command("finish $id " . strlen($result), $result, needs: 'results'))->expect('finish', 'FINISHED');
    }

    /**
     * Saves up to 64 KiB for the next delivery of a job that this client has reserved without a lease; an empty value removes it. Job::checkpoint does that for any job.
     *
     * @throws RedstalkException NotFound, JobTooBig, OutOfMemory, Unsupported
     */
    public function checkpoint(int $id, string $value): void
    {
        $this->exec(new Command("checkpoint $id " . strlen($value), $value, needs: 'checkpoint'))->expect('checkpoint', 'SAVED');
    }

    /** Returns the last checkpoint of a job, whoever has it; null if there is none. */
    public function getCheckpoint(int $id): ?string
    {
        $reply = $this->exec(Command::query("get-checkpoint $id", 'checkpoint'));

        return $reply->word === 'NOT_FOUND' ? null : $reply->expect('get-checkpoint', 'OK')->body;
    }

    /**
     * Waits until a job that was put with keep has ended. It goes on when a connection is lost.
     *
     * @param int $seconds 0 only asks
     * @return ?End null if it has not ended in that time
     * @throws RedstalkException NotFound if the job has no record any more, NotKept if it will have none, Unsupported, Unavailable
     */
    public function wait(int $id, int $seconds): ?End
    {
        $end = hrtime(true) / 1e9 + $seconds;
        $reply = $this->exec(function () use ($id, $end) {
            $left = (int) max(ceil($end - hrtime(true) / 1e9), 0);

            return new Command("wait-job $id $left", needs: 'results', repeat: true, changes: false, wait: $left);
        })->expect('wait-job', 'ENDED', 'TIMED_OUT');

        return $reply->word === 'TIMED_OUT' ? null : new End($id, explode(' ', $reply->args)[1], (string) $reply->body);
    }

    /**
     * Lists the records of ended jobs of a tube or of batch:NAME, the newest first.
     *
     * @return \Generator<EndedJob>
     */
    public function ended(string $of): \Generator
    {
        $next = '';
        do {
            $reply = $this->exec(Command::query(rtrim('list-ended ' . Text::word($of, 'tube', 206) . " 100 $next"), 'results'));
            [$rows, $next] = Page::rows((string) $reply->expect('list-ended', 'OK')->body);
            foreach ($rows as $row) {
                yield new EndedJob($row);
            }
        } while ($next !== '');
    }

    /** Returns a batch: a set of jobs after which other jobs run. Nothing is sent. */
    public function batch(string $name): Batch
    {
        return new Batch($this, $name);
    }

    /**
     * Returns what the server can do beyond beanstalkd; nothing for beanstalkd itself. It is asked once for each connection.
     *
     * @return list<string>
     */
    public function capabilities(): array
    {
        return array_keys($this->pool->connection()->capabilities);
    }

    /** Ends a reserve that waits, from a signal handler: it returns at once. Later ones do not wait. */
    public function interrupt(): void
    {
        $this->pool->interrupt();
    }

    /**
     * @internal Does something without waiting for a connection longer than one attempt.
     *
     * @param \Closure(): void $do
     */
    public function withoutWaiting(\Closure $do): void
    {
        [$timeout, $this->pool->timeout] = [$this->pool->timeout, 0];
        try {
            $do();
        } finally {
            $this->pool->timeout = $timeout;
        }
    }

    /** Closes all connections. With beanstalkd, reserved jobs go back. The next call connects again. */
    public function close(): void
    {
        $this->pool->close();
    }

    /**
     * @internal Sends a command and returns its reply.
     *
     * @param Command|\Closure(Connection): Command $command or what makes it for a connection
     * @param bool $reserve whether interrupt() ends the wait for a connection
     */
    public function exec(Command|\Closure $command, bool $reserve = false): Reply
    {
        $result = $this->pool->exchange([$command], $reserve)[0];

        return $result instanceof Reply ? $result : throw $result;
    }

    /**
     * @param list<array{0: string, 1: string, 2?: PutOptions}> $jobs
     * @return list<Receipt|RedstalkException>
     */
    private function putGroup(array $jobs): array
    {
        $results = $commands = [];
        foreach ($jobs as $i => $job) {
            try {
                $commands[$i] = self::putCommand($job[0], $job[1], $job[2] ?? new PutOptions());
            } catch (RedstalkException $e) {
                $results[$i] = $e;
            }
        }
        foreach ($this->pool->exchange($commands) as $i => $reply) {
            try {
                $results[$i] = $reply instanceof Reply ? self::receipt($reply) : $reply;
            } catch (RedstalkException $e) {
                $results[$i] = $e;
            }
        }
        ksort($results);

        return array_values($results);
    }

    /** @return \Closure(Connection): Command */
    private static function putCommand(string $tube, string $body, PutOptions $options): \Closure
    {
        Text::tube($tube);

        return static fn (Connection $c) => new Command(
            $options->line(strlen($body), $c->capabilities),
            $body,
            $tube,
            repeat: $options->isRepeatable(),
        );
    }

    private static function receipt(Reply $reply): Receipt
    {
        [$id, $state] = explode(' ', $reply->expect('put', 'INSERTED')->args, 2) + [1 => ''];

        return new Receipt((int) $id, $state);
    }
}
