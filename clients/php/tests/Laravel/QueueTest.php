<?php

declare(strict_types=1);

namespace Redstalk\Tests\Laravel;

use Illuminate\Queue\Attributes\Delay;
use Illuminate\Queue\Events\JobQueued;
use Illuminate\Queue\Jobs\InspectedJob;
use Illuminate\Queue\QueueRoutes;
use Illuminate\Queue\WorkerOptions;
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Inspector;
use Redstalk\Laravel\RedstalkConnector;
use Redstalk\Laravel\RedstalkQueue;
use Redstalk\Tests\Laravel\Jobs\Failing;
use Redstalk\Tests\Laravel\Jobs\Group;
use Redstalk\Tests\Laravel\Jobs\Import;
use Redstalk\Tests\Laravel\Jobs\Later;
use Redstalk\Tests\Laravel\Jobs\Log;
use Redstalk\Tests\Laravel\Jobs\Member;
use Redstalk\Tests\Laravel\Jobs\Name;
use Redstalk\Tests\Laravel\Jobs\Plain;
use Redstalk\Tests\Laravel\Jobs\Unique;
use Redstalk\Tests\Laravel\Jobs\UniqueByCache;
use Redstalk\Tests\Laravel\Jobs\UniqueFor;
use Redstalk\Tests\Laravel\Jobs\UniqueForAttribute;
use Redstalk\Tests\Laravel\Jobs\UniqueMember;
use Redstalk\Tests\Laravel\Jobs\UniqueMemberOnServer;
use Redstalk\Tests\Laravel\Jobs\Unit;
use Redstalk\Tests\Laravel\Jobs\Until;
use Redstalk\Tests\Laravel\Jobs\UntilProcessing;
use Redstalk\Tests\Server;
use Redstalk\Tests\Throws;

require_once __DIR__ . '/Jobs.php';

/** The driver in a Laravel application, with artisan queue:work. */
final class QueueTest extends TestCase
{
    use Throws;

    protected function setUp(): void
    {
        Log::take();
        Log::$do = null;
    }

    /** @return iterable<string, array{string}> */
    public static function everyServer(): iterable
    {
        foreach (Server::ENGINES as $engine) {
            yield $engine => [$engine];
        }
    }

    /** @return iterable<string, array{string}> */
    public static function everyEngine(): iterable
    {
        foreach (array_diff(Server::ENGINES, ['beanstalkd']) as $engine) {
            yield $engine => [$engine];
        }
    }

    /** @return iterable<string, array{string}> */
    public static function everySaving(): iterable
    {
        yield 'memory' => ['memory'];
        yield 'embedded' => ['embedded'];
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testDelayAndSizes(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $queue = $app->queue();
        self::assertSame([0, 0, null], [$queue->size(), $queue->pendingSize(), $queue->creationTimeOfOldestPendingJob()]);
        Plain::dispatch('now');
        Plain::dispatch('later')->delay(now()->addMinute());
        Plain::dispatch('other')->onQueue('other');
        $queue->later(30, new Plain('soon'));
        self::assertSame([3, 1, 2, 0], [$queue->size(), $queue->pendingSize(), $queue->delayedSize(), $queue->reservedSize()]);
        self::assertEqualsWithDelta(time(), $queue->creationTimeOfOldestPendingJob(), 10);
        Log::$do = function (Plain $job) use ($queue): void {
            self::assertSame(1, $queue->reservedSize($job->name === 'other' ? 'other' : null));
        };
        $app->work('--queue=other,default');
        self::assertSame(['other 1', 'now 1'], Log::take());
        $inspector = new Inspector($queue->getClient());
        self::assertEqualsWithDelta(30, $inspector->job($inspector->peekDelayed('default')->id)->left, 10);
        self::assertSame(2, $inspector->kick('default', 10));
        $app->work();
        self::assertEqualsCanonicalizing(['later 1', 'soon 1'], Log::take());
        self::assertSame(0, $queue->size());
    }

    /**
     * Jobs that the driver beanstalkd of Laravel has put are worked on: their bodies are what every driver makes.
     *
     * @dataProvider everyServer
     */
    #[DataProvider('everyServer')]
    public function testJobsOfTheBeanstalkdDriver(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $body = json_encode([
            'uuid' => '7b0f0a4e-1c1b-4b60-8d7e-0a7f5cbb1c55', 'displayName' => Plain::class, 'job' => 'Illuminate\\Queue\\CallQueuedHandler@call', 'maxTries' => null,
            'maxExceptions' => null, 'failOnTimeout' => false, 'backoff' => null, 'timeout' => null, 'retryUntil' => null,
            'data' => ['commandName' => Plain::class, 'command' => serialize(new Plain('old'))],
        ]);
        $app->queue()->getClient()->put('default', $body);
        $app->work();
        self::assertSame(['old 1'], Log::take());
        self::assertSame(0, $app->queue()->size());
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testBatchOfLaravel(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $app->createBatchesTable();
        $batch = $app->app[\Illuminate\Contracts\Bus\Dispatcher::class]->batch([new Member('one'), new Member('two')])->dispatch();
        self::assertSame(2, $app->queue()->size());
        $app->work();
        self::assertSame(['one 1', 'two 1'], Log::take());
        self::assertTrue($batch->fresh()->finished());
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testRetriesAndFailedJobs(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $app->createFailedJobsTable();
        $inspector = $app->queue()->inspector();
        Failing::dispatch('mail');
        foreach ([10, 50] as $i => $backoff) {
            $app->work();
            self::assertSame(['mail ' . ($i + 1)], Log::take());
            $job = $inspector->job($inspector->peekDelayed('default')->id);
            self::assertEqualsWithDelta($backoff, $job->left, 5, 'backoff');
            self::assertSame($engine === 'beanstalkd' ? null : 'RuntimeException: no such user', $job->reason);
            $inspector->kick('default', 1);
        }
        $app->work();
        self::assertSame(['mail 3', 'mail failed: no such user'], Log::take());
        self::assertSame(0, $app->queue()->size());
        self::assertSame(1, $app->app['db']->table('failed_jobs')->count());

        $app->artisan('queue:retry all');
        $app->work();
        self::assertSame(['mail 1'], Log::take());
        self::assertSame(0, $app->app['db']->table('failed_jobs')->count());
    }

    public function testReleaseAndFailInTheJob(): void
    {
        $app = new App($server = Server::start());
        Plain::dispatch('mail');
        Log::$do = fn (Plain $job) => $job->attempts() < 3 ? $job->release() : $job->fail(new \RuntimeException('enough'));
        $app->work('--tries=5');
        self::assertSame(['mail 1', 'mail 2', 'mail 3', 'mail failed: enough'], Log::take());
        self::assertSame(0, $app->queue()->size());
    }

    /**
     * A job whose worker is told to end saves where it is, and goes on from there at once, with another worker.
     *
     * @dataProvider everySaving
     */
    #[DataProvider('everySaving')]
    public function testNotFinishedWhenTheWorkerStops(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $inspector = $app->queue()->inspector();
        $id = $app->queue()->push(new Import());
        $worker = pcntl_fork();
        if ($worker === 0) {
            pcntl_alarm(60);
            Log::$do = fn () => count(Log::$lines) === 2 && posix_kill(getmypid(), SIGTERM);
            $app->app['queue.worker']->daemon('redstalk', 'default', new WorkerOptions(maxTries: 1));
            posix_kill(getmypid(), SIGKILL);
        }
        pcntl_waitpid($worker, $status);
        $stats = $inspector->job($id);
        self::assertSame(['ready', 0, 0, '1/4', 1], [$stats->state, $stats->failures, $stats->deliveries, $stats->progress, $stats->checkpointBytes]);
        $app->work('--tries=1');
        self::assertSame(['row 2, 1', 'row 3, 1'], Log::take());
        self::assertSame(0, $app->queue()->size());
    }

    public function testReleasedAfterACheckpoint(): void
    {
        $app = new App($server = Server::start());
        $app->queue()->push(new Import());
        Log::$do = fn () => count(Log::$lines) === 2 ? throw new \RuntimeException('no') : null;
        $app->work('--tries=2');
        self::assertSame(['row 0, 1', 'row 1, 1', 'row 2, 2', 'row 3, 2'], Log::take());
    }

    /** The waits of a policy apply to jobs without a backoff. */
    public function testPolicy(): void
    {
        $app = new App($server = Server::start());
        self::assertSame("mails  retry:70s,1m dead:mails-failed\n", $app->artisan('redstalk:policy mails retry:70s,1m dead:mails-failed'));
        self::assertSame("mails  retry:70s,1m dead:mails-failed\n", $app->artisan('redstalk:policy'));
        Plain::dispatch('mail')->onQueue('mails');
        Log::$do = fn () => throw new \RuntimeException('no');
        $app->work('--queue=mails --tries=5');
        $inspector = $app->queue()->inspector();
        self::assertEqualsWithDelta(70, $inspector->job($inspector->peekDelayed('mails')->id)->left, 10);
        self::assertSame("mails\n", $app->artisan('redstalk:policy mails --delete'));
        self::assertSame('', $app->artisan('redstalk:policy'));
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testUnique(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $queue = $app->queue();
        Unique::dispatch('a');
        Unique::dispatch('a');
        Unique::dispatch('b');
        self::assertSame(2, $queue->size());
        Log::$do = function (): void {
            Log::$do = null;
            Unique::dispatch('a'); // is not done yet
            throw new \RuntimeException('no');
        };
        $app->work('--tries=2 --backoff=60 --max-jobs=1');
        Unique::dispatch('a');
        self::assertSame([1, 1], [$queue->pendingSize(), $queue->delayedSize()], 'a job that waits for its retry is unique');
        $queue->inspector()->kick('default', 1);
        $app->work('--tries=2');
        Unique::dispatch('a');
        Unique::dispatch('a');
        self::assertSame(1, $queue->size(), 'it is done');
        self::assertSame(['a 1', 'a 2', 'b 1'], [Log::$lines[0], ...array_slice(Log::take(), 1)]);
    }

    public function testUniqueInOtherWays(): void
    {
        $app = new App($server = Server::start());
        $queue = $app->queue();
        $queue->push(new UniqueByCache('a'));
        UniqueByCache::dispatch('a');
        self::assertSame(2, $queue->size(), 'as in Laravel, only a dispatch asks for the lock');
        $app->work();
        UniqueByCache::dispatch('a');
        UniqueByCache::dispatch('a');
        self::assertSame(1, $queue->size(), 'the lock was released');
        $queue->clear('default');

        $queue->bulk([new Unique('c'), new Unique('c'), new Plain()]);
        self::assertSame(2, $queue->size());
        $queue->clear('default');

        UntilProcessing::dispatch('d');
        UntilProcessing::dispatch('d');
        Log::take();
        Log::$do = function (): void {
            Log::$do = null;
            UntilProcessing::dispatch('d');
            UntilProcessing::dispatch('d');
        };
        $app->work();
        self::assertSame(['d 1', 'd 1'], Log::take(), 'unique until it is processed');

        $id = $queue->push(new UniqueFor(str_repeat('long ü ', 30)));
        self::assertSame($id, $queue->push(new UniqueFor(str_repeat('long ü ', 30))));
        while ($queue->inspector()->job($id)->age < 3) {
            usleep(50_000);
        }
        $second = $queue->push(new UniqueFor(str_repeat('long ü ', 30)));
        self::assertNotSame($id, $second, 'uniqueFor is over');
        self::assertSame($second, $queue->push(new UniqueFor(str_repeat('long ü ', 30))));
        if (class_exists(\Illuminate\Queue\Attributes\UniqueFor::class)) { // since Laravel 13
            $id = $queue->push(new UniqueForAttribute('e'));
            self::assertSame($id, $queue->push(new UniqueForAttribute('e')));
            usleep(2_100_000);
            self::assertNotSame($id, $queue->push(new UniqueForAttribute('e')));
        }
    }

    /** @return iterable<string, array{string, class-string<UniqueMember>}> */
    public static function uniqueMembers(): iterable
    {
        yield 'lock, beanstalkd' => ['beanstalkd', UniqueMember::class];
        yield 'lock' => ['memory', UniqueMember::class];
        yield 'key' => ['memory', UniqueMemberOnServer::class];
    }

    /**
     * As with each driver, uniqueness does not apply in a batch, nor to the first job of a chain; the next one is put when the one before has run.
     *
     * @param class-string<UniqueMember> $class
     * @dataProvider uniqueMembers
     */
    #[DataProvider('uniqueMembers')]
    public function testUniqueInBatchesAndChains(string $engine, string $class): void
    {
        $app = new App($server = Server::start($engine));
        $app->createBatchesTable();
        $bus = $app->app[\Illuminate\Contracts\Bus\Dispatcher::class];
        $jobs = fn () => [new $class('same'), new $class('same'), new $class('same')];
        $batch = $bus->batch($jobs())->dispatch();
        self::assertSame(3, $app->queue()->size());
        $app->work();
        self::assertTrue($batch->fresh()->finished());
        self::assertCount(3, Log::take());

        $bus->chain($jobs())->dispatch();
        $bus->chain($jobs())->dispatch(); // another chain, at the same time
        self::assertSame(2, $app->queue()->size());
        $bus->batch([$jobs()])->dispatch();
        $app->work();
        self::assertSame(0, $app->queue()->size());
        self::assertGreaterThanOrEqual(6, count($lines = Log::take()));
        self::assertLessThanOrEqual(9, count($lines));

        $bus->chain($jobs())->dispatch();
        Log::$do = function (UniqueMember $job) use ($class): void {
            $class::dispatch('same'); // is refused but while the first one runs, which has no lock
        };
        $app->work('--max-jobs=1');
        Log::$do = null;
        $class::dispatch('same');
        $app->work();
        self::assertSame(0, $app->queue()->size());
        $class::dispatch('same');
        $class::dispatch('same');
        self::assertSame(1, $app->queue()->size(), 'no lock is left');
        self::assertStringNotContainsString('no longer reserved', @$app->log());
    }

    public function testRetryUntil(): void
    {
        $app = new App($server = Server::start());
        $app->queue()->push(new Until());
        self::assertArrayNotHasKey('expires-ms', $app->queue()->inspector()->job(1)->all);

        $app = new App($server, ['on_expire' => 'park']);
        $job = $app->queue()->inspector()->job($app->queue()->push(new Until()));
        self::assertEqualsWithDelta(100_000, $job->all['expires-ms'], 20_000);
        self::assertSame('park', $job->all['on-expire']);
        $job = $app->queue()->inspector()->job($app->queue()->later(50, new Until()));
        self::assertEqualsWithDelta(100_000, $job->all['expires-ms'], 20_000);
    }

    public function testAfterCommit(): void
    {
        $app = new App($server = Server::start());
        $database = $app->app['db'];
        $database->transaction(function () use ($app): void {
            Plain::dispatch('after')->afterCommit();
            Plain::dispatch('at once');
            $app->queue()->bulk([(new Plain('bulk'))->afterCommit()]);
            self::assertSame(1, $app->queue()->size());
        });
        self::assertSame(3, $app->queue()->size());
        $database->beginTransaction();
        Plain::dispatch('never')->afterCommit();
        $database->rollBack();
        self::assertSame(3, $app->queue()->size());

        $app = new App($server, ['after_commit' => true]);
        $app->app['db']->transaction(function () use ($app): void {
            Plain::dispatch('after');
            self::assertSame(3, $app->queue()->size());
        });
        self::assertSame(4, $app->queue()->size());
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testWithoutOverlapping(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $queue = $app->queue();
        $queue->inspector()->setPolicy('default', ['group-concurrency' => 1]);
        foreach (['ann', 'ann', 'bob'] as $name) {
            Group::dispatch($name);
        }
        $ann = $queue->pop();
        self::assertSame('bob', unserialize($queue->pop()->payload()['data']['command'])->name);
        self::assertNull($queue->pop(), 'a job of ann is running');
        $ann->delete();
        self::assertSame('ann', unserialize($queue->pop()->payload()['data']['command'])->name);
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testBulk(string $engine): void
    {
        $app = new App($server = Server::start($engine));
        $queued = 0;
        $app->app['events']->listen(JobQueued::class, function () use (&$queued): void {
            $queued++;
        });
        $jobs = array_map(fn ($i) => new Plain("$i"), range(1, 1500));
        $jobs[0]->delay(60);
        $app->queue()->bulk($jobs);
        self::assertSame([1499, 1, 1500], [$app->queue()->pendingSize(), $app->queue()->delayedSize(), $queued]);
        if ($engine === 'beanstalkd') {
            self::assertThrows(UnsupportedException::class, fn () => $app->queue()->clear('default'));
            self::assertThrows(UnsupportedException::class, fn () => Unique::dispatch('a'));
        } else {
            self::assertStringContainsString('1500', $app->artisan('queue:clear redstalk --force'));
            self::assertSame(0, $app->queue()->size());
        }
    }

    public function testBlockFor(): void
    {
        $app = new App($server = Server::start(), ['block_for' => '20']);
        $app->queue()->later(1, new Plain('soon'));
        self::assertNull($app->queue()->pop('default', 1), 'only the first queue is waited for');
        self::assertSame(1, $app->queue()->pop()?->attempts());
    }

    public function testNamesOfQueues(): void
    {
        $app = new App($server = Server::start());
        $queue = $app->queue();
        $queue->push(new Plain('a'), '', Name::Mails);
        $queue->later(60, new Plain('b'), '', Name::Mails);
        $queue->pushRaw('{}', Unit::other);
        $queue->bulk([new Plain('c'), new \stdClass(), 'App\Name'], '', Name::Mails);
        self::assertSame([5, 5, 1], [$queue->size(Name::Mails), $queue->size('mails'), $queue->size('other')]);
        self::assertSame('mails', $queue->pop(Name::Mails)->getQueue());
        self::assertSame([3, 1, 1], [$queue->pendingSize(Name::Mails), $queue->delayedSize(Name::Mails), $queue->reservedSize(Name::Mails)]);
        self::assertSame([6, 4, 1, 1], [$queue->totalSize(), $queue->totalPendingSize(), $queue->totalDelayedSize(), $queue->totalReservedSize()]);
        self::assertSame(4, $queue->clear(Name::Mails));
        if (method_exists(QueueRoutes::class, 'forward')) { // since Laravel 13
            $app->app['queue.routes']->forward('old', 'new');
            $queue->push(new Plain('d'), '', 'old');
            self::assertSame(1, $queue->inspector()->tube('new')->ready);
        }
    }

    public function testDelaysOfJobs(): void
    {
        $app = new App($server = Server::start());
        $queue = $app->queue();
        $queue->bulk([(new Plain())->delay(60), new Plain(), new Later()]);
        $queue->later(now()->addMinute(), new Plain());
        $payload = json_decode($queue->inspector()->peekDelayed('default')->body, true);
        if (array_key_exists('delay', $payload)) { // since Laravel 12
            self::assertSame(60, $payload['delay']);
        }
        self::assertSame(class_exists(Delay::class) ? [1, 3] : [2, 2], [$queue->pendingSize(), $queue->delayedSize()]);
    }

    public function testLists(): void
    {
        if (!class_exists(InspectedJob::class)) {
            $this->expectNotToPerformAssertions(); // since Laravel 13

            return;
        }
        $queue = (new App($server = Server::start()))->queue();
        $queue->push(new Plain('reserved'));
        $queue->pop();
        $queue->push(new Plain('ready'));
        $queue->pushRaw('no JSON');
        $queue->later(60, new Plain('delayed'));
        $queue->push(new Plain('other'), '', 'other');
        $names = fn ($jobs) => $jobs->map(fn ($job) => [$job->queue, $job->name, $job->attempts])->all();
        self::assertSame([['default', Plain::class, 0], ['default', null, 0]], $names($queue->pendingJobs()));
        self::assertSame([['default', Plain::class, 0]], $names($queue->delayedJobs()));
        self::assertSame([['default', Plain::class, 1]], $names($queue->reservedJobs()));
        self::assertCount(3, $queue->allPendingJobs());
        self::assertCount(1, $queue->allDelayedJobs());
        self::assertCount(1, $queue->allReservedJobs());
        self::assertNotNull($queue->pendingJobs()[0]->createdAt);
    }

    public function testExtension(): void
    {
        $app = new App($server = Server::start());
        $app->app['queue']->addConnector('redstalk', fn () => new class extends RedstalkConnector {
            public function connect(array $config): RedstalkQueue
            {
                return new class (parent::connect($config)->getClient(), 'mine') extends RedstalkQueue {
                };
            }
        });
        $app->queue()->push(new Plain());
        self::assertSame(1, $app->queue()->inspector()->tube('mine')->ready);
    }

    public function testLostLease(): void
    {
        $app = new App($server = Server::start(), ['retry_after' => 3]);
        Plain::dispatch('slow');
        $first = $app->queue()->pop();
        while (($second = $app->queue()->pop()) === null) {
            usleep(20_000);
        }
        self::assertSame([1, 2], [$first->attempts(), $second->attempts()]);
        $first->delete();
        self::assertSame(1, $app->queue()->size(), 'the second worker has it');
        self::assertStringContainsString('no longer reserved', $app->log());
        $second->delete();
        self::assertSame(0, $app->queue()->size());
    }

    public function testKeep(): void
    {
        $app = new App($server = Server::start(), ['keep' => 60]);
        Plain::dispatch('kept');
        $app->work();
        $ended = iterator_to_array($app->queue()->getClient()->ended('default'));
        self::assertSame(['done', 60], [$ended[0]->how, $ended[0]->until->getTimestamp() - $ended[0]->ended->getTimestamp()]);
    }

    public function testDefaultsAndMisspelledKeys(): void
    {
        $server = Server::start();
        $config = ['driver' => 'redstalk', 'host' => $server->address()];
        $queue = (new RedstalkConnector())->connect($config);
        $job = $queue->inspector()->job($queue->pushRaw('{}'));
        self::assertSame(['default', 1024, 60, null], [$job->tube, $job->priority, $job->ttr, $job->retry]);
        $wrong = self::assertThrows(InvalidArgumentException::class, fn () => (new RedstalkConnector())->connect($config + ['retry_afetr' => 90]));
        self::assertStringContainsString('retry_afetr', $wrong->getMessage());
    }
}
