<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Redstalk\Client;
use Redstalk\End;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\JobTooBigException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\NotKeptException;
use Redstalk\Exception\RedstalkException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Inspector;
use Redstalk\PutOptions;

/** Results of jobs, and waits for them. */
final class ResultsTest extends TestCase
{
    use Throws;

    /** @return iterable<string, array{string}> */
    public static function keeping(): iterable
    {
        yield 'memory' => ['memory'];
        yield 'embedded' => ['embedded'];
    }

    /** @dataProvider keeping */
    #[DataProvider('keeping')]
    public function testResults(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address(), name: 'adder');
        $kept = new PutOptions(keep: 60);
        foreach (['text', '', 7, ['é' => [1, null]], false, 1.0, null] as $result) {
            $id = $client->put('sums', 'x', $kept)->id;
            self::assertNull($client->wait($id, 0));
            $client->reserve('sums')->finish($result);
            $end = $client->wait($id, 5);
            self::assertSame([$id, 'done', true], [$end->id, $end->how, $end->isDone()]);
            self::assertSame($result ?? '', is_string($result ?? '') ? $end->body : $end->json());
        }
        self::assertNull($client->wait($id, 0)->json());
        $client->put('sums', 'x', $kept);
        $client->finish($client->reserveJob($id + 1)->id, 'by hand');
        self::assertSame('by hand', $client->wait($id + 1, 0)->body);

        $ended = iterator_to_array($client->ended('sums'));
        self::assertCount(8, $ended);
        self::assertSame(['by hand', 'adder', 'done', 1], [$ended[0]->result, $ended[0]->holder, $ended[0]->how, $ended[0]->deliveries]);
        self::assertNull($ended[1]->result);
        self::assertSame(60, $ended[7]->until->getTimestamp() - $ended[7]->ended->getTimestamp());
        self::assertCount(0, iterator_to_array($client->ended('batch:none')));
    }

    public function testEndsThatAreNoResult(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $kept = new PutOptions(keep: 60);
        $buried = $client->put('t', 'x', $kept)->id;
        $client->reserve('t')->bury('no such address');
        self::assertEquals(new End($buried, 'parked', 'no such address'), $client->wait($buried, 5));
        (new Inspector($client))->delete($buried);
        self::assertEquals(new End($buried, 'deleted', ''), $client->wait($buried, 5));
        $dead = $client->put('t', 'x', $kept->with(retry: [0], max: 1, dead: 'morgue'))->id;
        $client->reserve('t')->release(reason: 'try again');
        self::assertStringStartsWith('morgue ', $client->wait($dead, 5)->body);
        self::assertSame('try again', iterator_to_array($client->ended('t'))[0]->reason);
        $begin = microtime(true);
        self::assertNull($client->wait($client->put('t', 'x', $kept)->id, 1));
        self::assertGreaterThan(0.9, microtime(true) - $begin);
        self::assertThrows(NotFoundException::class, fn () => $client->wait(99, 5));
        self::assertThrows(NotKeptException::class, fn () => $client->wait($client->put('u', 'x')->id, 5));
    }

    public function testResultsThatCannotBeKept(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $client->put('t', 'x');
        $client->reserve('t')->finish('nobody wants it');
        self::assertCount(0, iterator_to_array($client->ended('t')));
        $id = $client->put('t', 'x', new PutOptions(keep: 60))->id;
        $job = $client->reserve('t');
        self::assertThrows(JobTooBigException::class, fn () => $job->finish(str_repeat('x', 65_537)));
        self::assertThrows(InvalidArgumentException::class, fn () => $job->finish(["\xff"]));
        $job->finish(str_repeat('x', 65_536));
        self::assertSame(65_536, strlen($client->wait($id, 0)->body));

        $beanstalkd = Server::start('beanstalkd');
        $old = new Client($beanstalkd->address());
        $old->put('t', 'x');
        $old->reserve('t')->finish('x');
        self::assertNull($old->reserve('t'));
        self::assertThrows(UnsupportedException::class, fn () => $old->wait(1, 0));
        self::assertThrows(UnsupportedException::class, fn () => $old->put('t', 'x', new PutOptions(keep: 60)));
    }

    /** @return iterable<string, array{string}> */
    public static function lasting(): iterable
    {
        yield 'embedded' => ['embedded'];
        yield 'redis' => ['redis'];
    }

    /**
     * A worker and who waits for its results miss none while the server is killed.
     *
     * @dataProvider lasting
     */
    #[DataProvider('lasting')]
    public function testServerKilled(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address(), timeout: 30);
        $many = (int) (getenv('RESULTS') ?: 2000);
        $jobs = (function () use ($many) {
            for ($i = 0; $i < $many; $i++) {
                yield ['t', "$i", new PutOptions(key: "job-$i", keyTtl: 60, keep: 600, ttr: 2)];
            }
        })();
        $server->restartIn(0.3);
        $receipts = $client->putMany($jobs);
        $worker = $this->startWorker($server->address());
        try {
            foreach ($receipts as $i => $receipt) {
                if (in_array($i, [1, (int) ($many * 0.3), (int) ($many * 0.6)], true)) {
                    $server->restartIn(0.05);
                }
                self::assertSame(2 * $i, $client->wait($receipt->id, 30)?->json(), "result of job $i");
            }
        } finally {
            posix_kill($worker, SIGKILL);
            pcntl_waitpid($worker, $status);
        }
    }

    /** Starts a process that doubles the numbers in t, until it is killed. */
    private function startWorker(string $address): int
    {
        $process = pcntl_fork();
        if ($process !== 0) {
            return $process;
        }
        pcntl_alarm(60);
        $client = new Client($address, timeout: 30);
        while (true) {
            try {
                foreach ($client->reserveBatch('t', 100, 1) as $job) {
                    $job->finish(2 * (int) $job->body);
                }
            } catch (RedstalkException) {
                // Its reply was lost, or it was delivered again. What it still holds comes again after its TTR.
            }
        }
    }
}
