<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Psr\Log\AbstractLogger;
use Redstalk\Client;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Inspector;
use Redstalk\NotFinished;
use Redstalk\PutOptions;
use Redstalk\Skip;
use Redstalk\Snooze;
use Redstalk\Worker;
use Redstalk\WorkerJob;

/** The worker: what becomes of a job, whatever its handler, the process or the server does. */
final class WorkerTest extends TestCase
{
    use Throws;

    private const KEEP = 60;

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

    /** A worker that logs nothing, and ends when no job is ready. */
    private static function worker(Client $client, string $tube = 't', mixed ...$options): Worker
    {
        $quiet = new class extends AbstractLogger {
            public function log($level, $message, array $context = []): void
            {
                throw new \LogicException('so does the logger of a user');
            }
        };

        return new Worker($client, $tube, ...$options + ['stopWhenEmpty' => true, 'logger' => $quiet]);
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testTypesAndTubes(string $engine): void
    {
        $client = new Client(($server = Server::start($engine))->address());
        $seen = [];
        $see = function (string $by) use (&$seen): \Closure {
            return function (WorkerJob $job) use ($by, &$seen): void {
                $seen[] = [$by, $job->type, $job->data];
            };
        };
        $client->putTyped('a', 'one', ['é' => [1, null], 'x' => (object) []]);
        $client->putTyped('a', 'other');
        $client->put('a', '{"type":"one","more":true}');
        foreach (['{"type":7}', '["type"]', 'null', '{"type":"x"', ''] as $body) {
            $client->put('b', $body);
        }
        $client->putTyped('b', 'one', 0.0);
        $client->put('b', '{"type":"nobody"}');
        $worker = self::worker($client, 'a')->on('one', $see('one'))->on('other', $see('other'))->tube('b', $see('b'));
        $worker->run();
        self::assertEqualsCanonicalizing([
            ['one', 'one', ['é' => [1, null], 'x' => []]], ['other', 'other', null], ['one', 'one', null], ['one', 'one', 0.0],
            ...array_fill(0, 5, ['b', null, null]), ['b', 'nobody', null],
        ], $seen);

        $ids = [$client->putTyped('c', 'nobody')->id, $client->put('c', 'text')->id];
        self::worker($client, 'c')->on('one', $see('one'))->run();
        $jobs = array_map((new Inspector($client))->job(...), $ids);
        self::assertSame(['buried', 'buried'], [$jobs[0]->state, $jobs[1]->state]);
        if ($engine !== 'beanstalkd') {
            self::assertSame(['no handler for this job: its type is nobody', 'no handler for this job: it has no type'], [$jobs[0]->reason, $jobs[1]->reason]);
        }
        self::assertThrows(InvalidArgumentException::class, fn () => $client->putTyped('a', ''));
        self::assertThrows(InvalidArgumentException::class, fn () => $client->putTyped('a', 'x', NAN));
        self::assertThrows(InvalidArgumentException::class, fn () => $worker->on('', $see('')));
    }

    public function testEnvelope(): void
    {
        $client = new Client(($server = Server::start())->address());
        $client->putTyped('t', 'welcome', ['to' => 'é/', 'n' => 1.0], new PutOptions(meta: ['a' => 'b']));
        $client->putTyped('t', 'welcome', [], new PutOptions(meta: ['content-type' => 'text/x']));
        [$one, $two] = $client->reserveBatch('t', 2);
        self::assertSame('{"type":"welcome","data":{"to":"é/","n":1.0}}', $one->body);
        self::assertEquals(['a' => 'b', 'content-type' => 'application/json'], $one->stats()->meta);
        self::assertSame(['{"type":"welcome","data":[]}', ['content-type' => 'text/x']], [$two->body, $two->stats()->meta]);
    }

    /** What a handler does, and the state, failures and reason of the job, or its result. */
    public static function outcomes(): iterable
    {
        $hangs = new class extends \Exception {
            protected $message = ["no\0text"];
        };
        yield 'nothing' => [fn () => null, ['done', '']];
        yield 'text' => [fn () => "é\n", ['done', '"é\n"']];
        yield 'array' => [fn () => ['b' => 1, 'a' => 2.0], ['done', '{"b":1,"a":2.0}']];
        yield 'false' => [fn () => false, ['done', 'false']];
        yield 'no JSON' => [fn () => ["\xff"], ['done', '']];
        yield 'too long' => [fn () => str_repeat('x', 70_000), ['done', '']];
        yield 'throws at the end' => [fn () => new class implements \JsonSerializable {
            public function jsonSerialize(): mixed
            {
                throw new Skip('too late');
            }
        }, ['done', '']];
        yield 'exception' => [fn () => throw new \RuntimeException("no\0 such \xffuser"), ['delayed', 1, 'RuntimeException: no such user']];
        yield 'error' => [fn () => intdiv(1, 0), ['delayed', 1, 'DivisionByZeroError: Division by zero']];
        yield 'no message' => [fn () => throw $hangs, ['delayed', 1, null]];
        yield 'generator' => [fn () => yield 1, ['delayed', 1, 'UnexpectedValueException: the handler is a generator, so nothing of it has run']];
        yield 'arguments' => [fn ($a, $b) => 1, ['delayed', 1, null]];
        yield 'skip' => [fn () => throw new Skip('no such user'), ['buried', 0, 'no such user']];
        yield 'snooze' => [fn () => throw new Snooze(100), ['delayed', 0, null]];
        yield 'early snooze' => [fn () => throw new Snooze(-1), ['delayed', 0, null]];
        yield 'late snooze' => [fn () => throw new Snooze(PHP_INT_MAX), ['delayed', 0, null]];
        yield 'stopped' => [function () { throw new \Redstalk\Cancelled('mine'); }, ['delayed', 1, 'Redstalk\Cancelled: mine']];
    }

    /** @dataProvider outcomes */
    #[DataProvider('outcomes')]
    public function testOutcomes(\Closure $handler, array $expected): void
    {
        $client = new Client(($server = Server::start())->address());
        $id = $client->put('t', 'x', new PutOptions(keep: self::KEEP))->id;
        @self::worker($client)->tube('t', $handler)->run();
        if ($expected[0] === 'done') {
            $end = $client->wait($id, 0);
            self::assertSame($expected, [$end->how, $end->body]);

            return;
        }
        $job = (new Inspector($client))->job($id);
        self::assertSame(array_slice($expected, 0, 2), [$job->state, $job->failures]);
        if ($expected[2] !== null) {
            self::assertSame($expected[2], $job->reason);
        }
    }

    public function testBackoffs(): void
    {
        $client = new Client(($server = Server::start())->address());
        $inspector = new Inspector($client);
        $backoffs = [
            [fn (int $failures) => 100 * $failures, 'delayed', 100.0], [fn () => 99.5, 'delayed', 100.0], [fn () => null, 'buried', 0.0],
            [fn () => throw new \Error('no'), 'delayed', 1.5], [fn () => 'x', 'delayed', 1.5], [fn () => NAN, 'delayed', 1.5], [fn () => -1, 'delayed', 1.5],
            [null, 'delayed', 1.5],
        ];
        foreach ($backoffs as $i => [$backoff, $state, $left]) {
            $id = $client->put('t', 'x')->id;
            $kept = $client->put('t', 'x', new PutOptions(retry: [1000]))->id;
            self::worker($client, backoff: $backoff)->tube('t', fn () => throw new \Exception())->run();
            self::assertSame($state, $inspector->job($id)->state, "$i");
            self::assertEqualsWithDelta($left, $inspector->job($id)->left, 1.5, "$i");
            self::assertEqualsWithDelta(1000, $inspector->job($kept)->left, 5, 'the waits of the job come first');
        }
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testCheckpointAndProgress(string $engine): void
    {
        $client = new Client(($server = Server::start($engine))->address());
        $inspector = new Inspector($client);
        $id = $client->put('t', 'x', new PutOptions(retry: [0, 0], key: 'k', group: 'acme', batch: 'b', keep: self::KEEP))->id;
        $seen = [];
        $worker = self::worker($client);
        $worker->tube('t', function (WorkerJob $job) use (&$seen, $inspector): string {
            $row = $job->lastCheckpoint() ?? 0;
            $stats = $job->stats;
            $seen[] = [$row, $stats->deliveries, $stats->failures, $stats->reason, $inspector->job($job->id)->progress];
            self::assertSame(['k', 'acme', 'b'], [$stats->key, $stats->group, $stats->batch]);
            $job->checkpoint($row + 1);
            for ($i = 0; $i < 1000; $i++) {
                $job->progress("$i/1000");
            }
            if ($row === 1) {
                throw new NotFinished();
            }

            return $row > 1 ? 'all' : throw new \RuntimeException('one');
        });
        $worker->run();
        self::assertSame([[0, 1, 0, null, null], [1, 2, 1, 'RuntimeException: one', null], [2, 2, 1, 'RuntimeException: one', null]], $seen);
        self::assertSame('all', $client->wait($id, 0)->json());
    }

    public function testProgressIsSentAsItGoes(): void
    {
        $client = new Client(($server = Server::start())->address());
        $inspector = new Inspector($client);
        $id = $client->put('t', 'x', new PutOptions(retry: [1000]))->id;
        $shown = [];
        self::worker($client)->tube('t', function (WorkerJob $job) use ($inspector, &$shown): void {
            for ($end = microtime(true) + 3.4; microtime(true) < $end;) {
                $job->progress(sprintf('%d', 100 * microtime(true)));
                $shown[(string) $inspector->job($job->id)->progress] = true;
            }
            $job->progress('last');
            self::assertThrows(InvalidArgumentException::class, fn () => $job->progress(str_repeat('x', 257)));
            self::assertThrows(InvalidArgumentException::class, fn () => $job->progress("\0"));
            throw new \Exception();
        })->run();
        self::assertContains(count($shown), [3, 4, 5]);
        self::assertSame('last', $inspector->job($id)->progress);
    }

    public function testLimitsOfTheWorker(): void
    {
        $client = new Client(($server = Server::start())->address());
        $client->putMany(array_fill(0, 10, ['t', 'x']));
        $count = 0;
        $handler = function () use (&$count): void {
            $count++;
        };
        self::worker($client, maxJobs: 3)->tube('t', $handler)->run();
        self::assertSame(3, $count);
        self::worker($client, memory: 1)->tube('t', $handler)->run();
        self::assertSame(3, $count, 'it has more than 1 MiB');
        $worker = self::worker($client);
        $worker->tube('t', function () use (&$count, $worker): void {
            $count++;
            $worker->stop();
        })->run();
        self::assertSame(4, $count);
        $begin = microtime(true);
        self::worker($client, maxTime: 2, stopWhenEmpty: false)->tube('t', $handler)->run();
        self::assertSame(10, $count);
        self::assertEqualsWithDelta(2.5, microtime(true) - $begin, 1);
        self::assertThrows(\Error::class, fn () => self::worker($client, maxJob: 1));
        self::assertThrows(InvalidArgumentException::class, fn () => self::worker($client, timeout: NAN));
        self::assertThrows(InvalidArgumentException::class, fn () => new Worker($client, ['a' => 0]));
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testStopsWithinASecond(string $engine): void
    {
        $client = new Client(($server = Server::start($engine))->address());
        foreach ([SIGTERM, SIGINT] as $signal) {
            $worker = new WorkerProcess($server, 'say($job->body);');
            $client->put('t', 'handled');
            $worker->await('handled');
            usleep(300_000); // it is in a reserve now
            self::assertLessThan(1, $worker->stop($signal));
            self::assertSame([0, 'ends'], [$worker->status(), $worker->lines()[2]]);
        }
        $client->put('t', 'later');
        self::assertSame('later', $client->reserve('t', 1)?->body, 'no worker is left in a reserve');
        $worker = new WorkerProcess($server, 'say($job->body);');
        $client->put('t', 'last');
        $worker->await('last');
        for ($end = microtime(true) + 10; self::stats($client) > 0 && microtime(true) < $end; usleep(10_000));
        $server->kill();
        usleep(500_000); // it tries to connect now
        self::assertLessThan(1.5, $worker->stop(), 'without a server');
        self::assertSame(0, $worker->status());
    }

    /** A job that cannot be finished holds the worker up only for the time that handlers have. */
    public function testStopsWhileItSettles(): void
    {
        $client = new Client(($server = Server::start('embedded'))->address());
        $client->put('t', 'x');
        $worker = new WorkerProcess($server, 'say("begins"); while (!$job->isStopping()) { usleep(1000); }', 'shutdownTimeout: 2');
        $worker->await('begins');
        $server->kill();
        self::assertEqualsWithDelta(2.5, $worker->stop(), 2);
        self::assertSame(0, $worker->status());
        self::assertStringContainsString('cannot settle job 1', $worker->log());
    }

    public function testStopsAfterTheHandler(): void
    {
        $client = new Client(($server = Server::start())->address());
        $client->put('t', 'first', new PutOptions(keep: self::KEEP));
        $client->put('t', 'second');
        $worker = new WorkerProcess($server, 'say("begins"); while (!$job->isStopping()) { usleep(1000); } usleep(500_000); return $job->body;');
        $worker->await('begins');
        $worker->stop();
        self::assertSame([0, ['starts', 'begins', 'ends']], [$worker->status(), $worker->lines()]);
        self::assertSame('first', $client->wait(1, 0)->json());
        self::assertSame(1, (new Inspector($client))->tube('t')->ready);

        $worker = new WorkerProcess($server, 'say("begins"); while (!$job->isStopping()) { usleep(1000); } $job->checkpoint(7); throw new NotFinished();');
        $worker->await('begins');
        self::assertLessThan(2, $worker->stop());
        $job = $client->reserve('t');
        self::assertSame([7, 1, 0], [$job->lastCheckpoint(), $job->stats()->deliveries, $job->stats()->failures]);
    }

    /** A handler that does not end in time gets an exception, and a second later its job is given back, whatever it does. */
    public function testStopsWithoutTheHandler(): void
    {
        $client = new Client(($server = Server::start())->address());
        $client->put('t', 'x');
        $wait = 'say("begins"); try { while (true) { usleep(1000); } } catch (Cancelled $e) { say($e->cause); %s }';
        foreach ([['throw $e;', 0], ['while (true) { usleep(1000); }', 1]] as [$then, $status]) {
            foreach (['shutdownTimeout: 1', 'timeout: 0'] as $i => $options) {
                $worker = new WorkerProcess($server, sprintf($wait, $then), $options);
                $worker->await('begins');
                $worker->signal(SIGTERM);
                usleep(50_000);
                $i === 0 ? null : $worker->signal(SIGTERM);
                self::assertSame($status, $worker->status(), $worker->log());
                $worker->await('shutdown');
                $job = $client->reserve('t');
                self::assertSame([1, 0], [$job->stats()->deliveries, $job->stats()->failures]);
                $job->giveBack();
            }
        }
    }

    /** A signal ends the worker also if it comes together with the end of the handler's time, while that is found out, or later. */
    public function testStopsWithAHandlerThatWasTold(): void
    {
        $forever = 'while (true) { usleep(1000); }';
        $together = "pcntl_sigprocmask(SIG_BLOCK, [SIGALRM, SIGTERM]); usleep(1_500_000); pcntl_sigprocmask(SIG_UNBLOCK, [SIGALRM, SIGTERM]); $forever";
        $logger = 'logger: new class extends \Psr\Log\AbstractLogger { function log($level, $message, array $context = []): void { '
            . 'str_contains($message, "cannot touch") && posix_kill(getmypid(), SIGTERM); } }';
        foreach ([[$together, 'timeout: 1', 0], [$forever, $logger, 0], ["try { $forever } catch (Cancelled) { say('told'); $forever }", 'timeout: 1', 1]] as [$handler, $options, $status]) {
            $client = new Client(($server = Server::start())->address());
            $client->put('t', 'x', new PutOptions(ttr: 1));
            $worker = new WorkerProcess($server, "say('begins'); $handler", "shutdownTimeout: 1, $options");
            $worker->await('begins');
            if ($options === $logger) {
                $server->kill();
            } elseif ($status === 1) {
                $worker->await('told');
                $worker->signal(SIGTERM);
            } else {
                usleep(300_000);
                $worker->signal(SIGTERM);
            }
            self::assertSame($status, $worker->status(), $worker->log());
        }
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testHeartbeat(string $engine): void
    {
        $client = new Client(($server = Server::start($engine))->address());
        $client->put('t', 'slow', new PutOptions(ttr: 2));
        $code = 'say($job->body); for ($end = microtime(true) + 6; microtime(true) < $end;) { usleep(100_000); $client->put("other", "x"); }';
        $workers = [new WorkerProcess($server, $code), new WorkerProcess($server, $code)];
        usleep(7_500_000);
        $lines = array_merge($workers[0]->lines(), $workers[1]->lines());
        self::assertSame(['slow', 'starts', 'starts'], [...array_filter($lines, fn ($l) => $l === 'slow'), ...array_filter($lines, fn ($l) => $l !== 'slow')]);
        self::assertNull((new Inspector($client))->peekReady('t'));
        self::assertNull((new Inspector($client))->peek(1));
    }

    public function testTimeLimit(): void
    {
        $client = new Client(($server = Server::start())->address());
        $inspector = new Inspector($client);
        $id = $client->put('t', 'x', new PutOptions(ttr: 3, retry: [1000]))->id;
        $worker = new WorkerProcess($server, 'while (true) { usleep(1000); }', 'timeout: 1');
        $this->awaitState($inspector, $id, 'delayed');
        self::assertSame('timeout', $inspector->job($id)->reason);
        $client->put('t', 'next');
        $worker->stop();
        unset($worker);

        $inspector->kickJob($id);
        $stuck = 'say("begins"); while (true) { try { $job->setTimeout(0.1); while (true) { usleep(1000); } } catch (Cancelled) { } }';
        $worker = new WorkerProcess($server, $stuck);
        $worker->await('begins');
        usleep(5_000_000);
        self::assertSame('reserved', $inspector->job($id)->state, 'it has ten seconds more, with heartbeats');
        $this->awaitState($inspector, $id, 'buried');
        self::assertSame('timeout', $inspector->job($id)->reason);
        self::assertStringContainsString('goes on after its timeout', $worker->log());
    }

    private function awaitState(Inspector $inspector, int $id, string $state): void
    {
        for ($end = microtime(true) + 20; $inspector->job($id)->state !== $state; usleep(10_000)) {
            self::assertLessThan($end, microtime(true), $inspector->job($id)->state);
        }
    }

    /** A handler whose job is no longer reserved is told, and what it does has no effect. */
    public function testLostJob(): void
    {
        $client = new Client(($server = Server::start())->address());
        $client->put('t', 'old', new PutOptions(ttr: 3, key: 'k'));
        $code = 'say($job->body); if ($job->body === "new") { return; } try { while (true) { usleep(1000); } } catch (Cancelled $e) { say($e->cause); try { $job->checkpoint(1); } '
            . 'catch (Cancelled) { say("still"); } throw $e; }';
        $worker = new WorkerProcess($server, $code);
        $worker->await('old');
        $client->put('t', 'new', new PutOptions(key: 'k', onDuplicate: \Redstalk\OnDuplicate::Replace));
        $worker->await('new');
        $worker->stop();
        self::assertSame(['starts', 'old', 'lost', 'still', 'new', 'ends'], $worker->lines());
    }

    /** @return iterable<string, array{string, string, string, int}> */
    public static function ends(): iterable
    {
        yield 'exit' => ['exit(3);', '', 'RuntimeException: the handler has ended the process', 3];
        yield 'memory' => ['$x = "x"; while (true) { $x .= $x; }', '-d memory_limit=32M -d display_errors=0', 'RuntimeException: Allowed memory size of 33554432 bytes exhausted', 255];
        yield 'fatal error' => ['eval("function say() {}");', '-d display_errors=0', 'RuntimeException: Cannot redeclare', 255];
    }

    /** @dataProvider ends */
    #[DataProvider('ends')]
    public function testHandlerThatEndsTheProcess(string $handler, string $options, string $reason, int $status): void
    {
        $client = new Client(($server = Server::start())->address());
        $id = $client->put('t', 'x')->id;
        $worker = new WorkerProcess($server, $handler, php: $options);
        self::assertSame($status, $worker->status());
        $job = (new Inspector($client))->job($id);
        self::assertSame(['delayed', 1], [$job->state, $job->failures]);
        self::assertStringStartsWith($reason, $job->reason);
    }

    /** Only the process that has the job settles it. */
    public function testForkInAHandler(): void
    {
        $client = new Client(($server = Server::start())->address());
        $codes = ['', 'throw new \Exception();', 'exit;', 'posix_kill(getmypid(), SIGTERM); sleep(5);', '$client->put("other", "of the child");'];
        $client->putMany(array_map(fn ($code) => ['t', $code, new PutOptions(keep: self::KEEP)], $codes));
        $worker = new WorkerProcess($server, 'if (($pid = pcntl_fork()) === 0) { eval($job->body); return "child"; } usleep(200_000); $client->put("other", "x"); '
            . 'pcntl_waitpid($pid, $status); say("$job->id"); return "parent";');
        $worker->await('5');
        $worker->stop();
        self::assertSame(['starts', '1', '2', '3', '4', '5', 'ends'], $worker->lines());
        self::assertSame(array_fill(0, 5, '"parent"'), array_map(fn ($job) => $job->result, iterator_to_array($client->ended('t'), false)));
        self::assertSame(6, (new Inspector($client))->tube('other')->ready);
    }

    /** Each job is handled once, but for those whose lease had ended. */
    public function testWorkersAndServerAreKilledFrozenAndDrained(): void
    {
        $client = new Client(($server = Server::start('embedded'))->address(), timeout: 20);
        $jobs = fn (int $from, int $to) => array_map(fn ($i) => ['t', "$i", new PutOptions(ttr: 2, keep: 600)], range($from, $to));
        $client->putMany($jobs(1, 3000));
        $code = 'say($job->body);';
        $workers = [new WorkerProcess($server, $code), new WorkerProcess($server, $code), new WorkerProcess($server, $code)];
        usleep(200_000);
        $workers[0]->stop(SIGKILL);
        $server->kill();
        $server->run();
        $workers[1]->signal(SIGSTOP);
        usleep(6_500_000);
        $workers[1]->signal(SIGCONT);
        (new Inspector($client))->drain();
        $worker = new WorkerProcess($server, $code);
        for ($end = microtime(true) + 30; $client->capabilities() && ($stats = self::stats($client)) > 0; usleep(50_000)) {
            self::assertLessThan($end, microtime(true), "$stats jobs are left");
        }
        $seen = array_count_values(array_filter(array_merge($worker->lines(), ...array_map(fn ($w) => $w->lines(), $workers)), is_numeric(...)));
        self::assertCount(3000, $seen);
        self::assertLessThanOrEqual(3, count(array_filter($seen, fn ($times) => $times > 1)), 'the killed worker, the frozen one, and the restart');
        $worker->awaitHandled(SIGTERM); // the others can have taken all jobs before it began
        foreach ([$worker, $workers[1], $workers[2]] as $left) {
            self::assertLessThan(1, $left->stop());
            self::assertSame(0, $left->status(), $left->log());
        }
    }

    private static function stats(Client $client): int
    {
        try {
            $stats = (new Inspector($client))->tube('t');
        } catch (\Redstalk\Exception\NotFoundException) {
            return 0;
        }

        return $stats->ready + $stats->delayed + $stats->reserved;
    }

    public function testSaysWhatItCannotDo(): void
    {
        $server = Server::start();
        $worker = new WorkerProcess($server, '', php: '-d disable_functions=pcntl_alarm');
        $worker->awaitLog('redstalk: PHP has no pcntl');
        $worker->stop();
        self::assertSame(128 + SIGTERM, $worker->status());
        $wrong = '->close(); $client = new Client("' . $server->address() . '", user: "nobody", secret: "wrong"';
        $worker = new WorkerProcess($server, '', 'stopWhenEmpty: true); $client' . $wrong . '); $worker = new Worker($client, "t"');
        $worker->awaitLog('redstalk: cannot take jobs: auth');
        self::assertLessThan(1, $worker->stop());
        self::assertSame(0, $worker->status());
    }

    /** They are those of docs/clients.md. */
    public function testDefaults(): void
    {
        $defaults = [];
        foreach ((new \ReflectionMethod(Worker::class, '__construct'))->getParameters() as $parameter) {
            $defaults[$parameter->getName()] = $parameter->isOptional() ? $parameter->getDefaultValue() : null;
        }
        self::assertEquals(
            ['client' => null, 'tubes' => [], 'backoff' => null, 'timeout' => 1800, 'shutdownTimeout' => 25, 'maxJobs' => 0, 'maxTime' => 0, 'memory' => 0, 'stopWhenEmpty' => false, 'logger' => null],
            $defaults,
        );
    }
}
