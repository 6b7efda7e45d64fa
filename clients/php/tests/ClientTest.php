<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Redstalk\Client;
use Redstalk\Exception\DuplicateException;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\JobTooBigException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Inspector;
use Redstalk\OnDuplicate;
use Redstalk\OnExpire;
use Redstalk\PutOptions;
use Redstalk\Schedules;
use Redstalk\Times;

/** What the client does on every engine, and on beanstalkd. */
final class ClientTest extends TestCase
{
    use Throws;

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

    /** They are those of all clients. */
    public function testDefaults(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $schedules = new Schedules($client);
        $schedules->set('s', 'mails', 'a', new Times(every: 3600));
        $ids = [$client->put('mails', 'a')->id, $client->batch('b')->add('mails', 'a')->id, $schedules->run('s')->id];
        $inspector = new Inspector($client);
        foreach ($ids as $id) {
            $stats = $inspector->job($id);
            self::assertSame([1024, 60, null], [$stats->priority, $stats->ttr, $stats->retry]);
        }
        $client->reserveJob($ids[0])->fail('no such address');
        $stats = $inspector->job($ids[0]);
        self::assertSame(['delayed', 'no such address'], [$stats->state, $stats->reason]);
        self::assertContains($stats->all['delay'], [1, 2]); // up to a tenth more than 1, rounded up
        $client->put('urgent', 'a', new PutOptions(retry: [3600]));
        $job = $client->reserve('urgent');
        $job->fail();
        self::assertEqualsWithDelta(3600, $inspector->job($job->id)->left, 5);
    }

    public function testMisspelled(): void
    {
        self::assertThrows(\Error::class, fn () => new PutOptions(prioritiy: 1));
        self::assertThrows(\Error::class, fn () => (new PutOptions())->with(prioritiy: 1));
        self::assertThrows(\Error::class, fn () => new Client(sceret: 's'));
        self::assertThrows(InvalidArgumentException::class, fn () => new Client(tls: ['peer_fingerprnt' => 's']));
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testLifeOfAJob(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $inspector = new Inspector($client);
        $receipt = $client->put('mails', "binary \0\r\n body", new PutOptions(priority: 7, ttr: 30));
        self::assertSame('', $receipt->state);
        self::assertNull($client->reserve('other'));

        $job = $client->reserve('mails');
        self::assertSame([$receipt->id, "binary \0\r\n body"], [$job->id, $job->body]);
        self::assertSame(['mails', 7, 30, 1], [$job->stats()->tube, $job->stats()->priority, $job->stats()->ttr, $job->stats()->deliveries]);
        $job->touch();
        $job->release();
        $job = $client->reserve(['other', 'mails'], 1);
        self::assertSame($receipt->id, $job->id);
        self::assertSame(2, $inspector->job($job->id)->deliveries);
        $job->bury();
        self::assertSame(1, $inspector->tube('mails')->buried);
        self::assertSame($receipt->id, $inspector->peekBuried('mails')->id);
        self::assertSame(1, $inspector->kick('mails', 10));
        self::assertSame("binary \0\r\n body", $inspector->peekReady('mails')->body);

        self::assertNull($client->reserveJob(99));
        $job = $client->reserveJob($receipt->id);
        self::assertNull($client->reserveJob($receipt->id));
        self::assertSame(["binary \0\r\n body", 1], [$job->body, $inspector->tube('mails')->reserved]);
        $job->release();
        $job = $client->reserve('mails');
        $job->delete();
        $this->expectException(NotFoundException::class);
        $job->delete();
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testDelayAndPause(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $inspector = new Inspector($client);
        $client->put('mails', 'later', new PutOptions(delay: 100));
        $client->put('mails', 'at', new PutOptions(at: new \DateTimeImmutable('+200 seconds')));
        self::assertSame(2, $inspector->tube('mails')->delayed);
        $delayed = $inspector->peekDelayed('mails');
        self::assertSame('later', $delayed->body);
        self::assertEqualsWithDelta(100, $inspector->job($delayed->id)->left, 10);
        $inspector->kickJob($delayed->id);
        $inspector->pause('mails', 60);
        self::assertNull($client->reserve('mails'));
        $inspector->pause('mails', 0);
        self::assertSame('later', $client->reserve('mails')->body);
        self::assertContains('mails', $inspector->tubes());
        self::assertArrayHasKey('current-jobs-ready', $inspector->server());
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testErrors(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        foreach (['', '-x', 'a b', str_repeat('x', 201)] as $tube) {
            self::assertThrows(InvalidArgumentException::class, fn () => $client->put($tube, ''));
        }
        self::assertThrows(JobTooBigException::class, fn () => $client->put('mails', str_repeat('x', 65536)));
        self::assertThrows(NotFoundException::class, fn () => (new Inspector($client))->tube('none'));
        self::assertThrows(NotFoundException::class, fn () => (new Inspector($client))->delete(99));
        self::assertNull((new Inspector($client))->peek(99));
        $client->put('mails', 'the connection goes on');
        self::assertSame('the connection goes on', $client->reserve('mails')->body);
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testPutMany(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $results = $client->putMany((function () {
            for ($i = 0; $i < 2500; $i++) {
                yield ['t' . $i % 2, $i === 1500 ? str_repeat('x', 65536) : "job $i"];
            }
            yield ['no tube', ''];
        })());
        self::assertCount(2501, $results);
        self::assertInstanceOf(JobTooBigException::class, $results[1500]);
        self::assertInstanceOf(InvalidArgumentException::class, $results[2500]);
        unset($results[1500], $results[2500]);
        self::assertCount(2499, array_unique(array_column($results, 'id')));
        $bodies = [];
        while ($jobs = $client->reserveBatch(['t0', 't1'], 100)) {
            foreach ($jobs as $job) {
                $bodies[] = $job->body;
                $job->delete();
            }
        }
        self::assertCount(2499, array_unique($bodies));
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testKeysRetriesAndDeadLetters(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $inspector = new Inspector($client);
        $options = new PutOptions(
            key: 'order-7',
            keyTtl: 60,
            retry: [0.001],
            dead: 'failed',
            meta: ['request' => "4 \"7\"\n11"],
            group: 'Ann & Co',
            trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
            expire: 3600,
            onExpire: OnExpire::Park,
            max: 5,
            jitter: 10
        );
        $id = $client->put('mails', 'x', $options)->id;
        self::assertSame([$id, 'READY'], array_values((array) $client->put('mails', 'x', $options)));
        self::assertThrows(DuplicateException::class, fn () => $client->put('mails', 'x', $options->with(onDuplicate: OnDuplicate::Fail)));
        self::assertSame($id, $inspector->find('mails', 'order-7')->id);

        $stats = ($job = $client->reserve('mails'))->stats();
        self::assertSame(['request' => "4 \"7\"\n11"], $stats->meta);
        self::assertSame(['order-7', 'Ann & Co', $options->trace, 0], [$stats->key, $stats->group, $stats->trace, $stats->failures]);
        $job->release(reason: "550 no\x00 such \xFFuser ü");
        $job = $client->reserve('mails', 20);
        self::assertSame([1, '550 no such user ü'], [$job->stats()->failures, $job->stats()->reason]);
        self::assertEqualsWithDelta(time(), $job->stats()->failedAt->getTimestamp(), 30);
        $job->release();

        $letter = $client->reserve('failed', 20);
        self::assertSame($id, $inspector->job($letter->id)->all['from-id']);
        $letter->giveBack();
        $inspector->replay($letter->id);
        self::assertSame(1, $inspector->tube('mails')->ready);
        $inspector->deleteKey('mails', 'order-7');
        self::assertNull($inspector->find('mails', 'order-7'));
        self::assertSame('GONE', $client->put('mails', 'x', $options)->state);
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testLeasesOutliveConnections(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $client->put('mails', 'x');
        $job = $client->reserve('mails');
        self::assertMatchesRegularExpression('/^\d{20}$/', $job->lease);
        $client->close();
        $job->touch();
        $job->giveBack();
        $again = $client->reserve('mails');
        self::assertSame([1, 0], [$again->stats()->deliveries, $again->stats()->failures], 'a job that is given back has not failed');
        self::assertThrows(NotFoundException::class, fn () => $job->delete());
        $again->bury('because');
        self::assertSame('because', (new Inspector($client))->job($job->id)->reason);
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testInspector(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address(), name: 'tester');
        $inspector = new Inspector($client);
        self::assertNull($inspector->policy('mails'));
        $inspector->setPolicy('mails', ['retry' => '10s,1m', 'group-rate' => '100/m,1000/h']);
        $inspector->setPolicy('sms*', ['expire' => '1h']);
        self::assertEquals(['retry' => '10s,1m', 'group-rate' => '100/m,1000/h'], $inspector->policy('mails'));
        self::assertSame(['mails', 'sms*'], $inspector->policies());
        $inspector->setPolicy('sms*', []);
        self::assertThrows(InvalidArgumentException::class, fn () => $inspector->setPolicy('mails', ['retry' => [10, 60]]));
        self::assertSame(['mails'], $inspector->policies());

        for ($i = 0; $i < 150; $i++) {
            $ids[] = $client->put('mails', "$i", new PutOptions(group: $i % 2 ? 'odd "1"' : 'even'))->id;
        }
        self::assertCount(150, iterator_to_array($inspector->jobs('mails'), false));
        $inspector->setGroup('mails', 'even', ['concurrency' => 5, 'rate' => '5/m,50/h']);
        self::assertEquals(['concurrency' => 5, 'rate' => '5/m,50/h', 'weight' => 1, 'ttl' => '30d'], $inspector->groupSettings('mails', 'even'));
        $inspector->pauseGroup('mails', 'even', 60);
        $groups = array_column(iterator_to_array($inspector->groups('mails'), false), null, 'name');
        self::assertSame([75, 5, '5/m,50/h', 'paused'], [$groups['even']['ready'], $groups['even']['concurrency'], $groups['even']['rate'], $groups['even']['held']]);
        self::assertSame(75, $inspector->group('mails', 'odd "1"')['ready']);
        self::assertNull($inspector->group('mails', 'none'));
        self::assertSame('1', $client->reserve('mails')->body);
        self::assertSame(75, $inspector->flushGroup('mails', 'even'));
        $inspector->setPriority($ids[149], 1);
        $inspector->reschedule($ids[147], 100);
        self::assertSame('149', $inspector->peekReady('mails')->body);
        self::assertSame(['147'], array_map(fn ($job) => $inspector->peek($job->id)->body, iterator_to_array($inspector->jobs('mails', 'delayed'), false)));
        self::assertSame(2, $inspector->move('mails', 'ready', 'other', 2));
        self::assertSame(1, $inspector->deleteMany([$ids[145], 9999999]));
        self::assertSame(1, $inspector->flush('mails', 'delayed'));
        self::assertSame(70, $inspector->flush('mails'));
        self::assertContains('tester', array_column(iterator_to_array($inspector->clients(), false), 'name'));
        self::assertGreaterThan(0, $inspector->tube('mails')->total);
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testWeights(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        for ($i = 0; $i < 100; $i++) {
            $client->put('urgent', 'u');
            $client->put('bulk', 'b');
        }
        $count = ['u' => 0, 'b' => 0];
        for ($i = 0; $i < 100; $i++) {
            $job = $client->reserve(['urgent' => 1000, 'bulk' => 1]);
            $count[$job->body]++;
            $job->delete();
        }
        self::assertGreaterThan(80, $count['u']);
        self::assertNotNull($client->reserve(['urgent', 'bulk']));
    }

    public function testBeanstalkdLacks(): void
    {
        $server = Server::start('beanstalkd');
        $client = new Client($server->address());
        $inspector = new Inspector($client);
        self::assertSame([], $client->capabilities());
        foreach (
            [
            'put with key' => fn () => $client->put('mails', '', new PutOptions(key: 'k')),
            'put with group' => fn () => $client->put('mails', '', new PutOptions(group: 'g')),
            'set-policy' => fn () => $inspector->setPolicy('mails', ['max' => 1]),
            'list-jobs' => fn () => iterator_to_array($inspector->jobs('mails')),
            'delete-batch' => fn () => $inspector->deleteMany([1]),
            'watch' => fn () => $client->reserve(['a' => 1]),
            ] as $feature => $do
        ) {
            $e = self::assertThrows(UnsupportedException::class, $do);
            self::assertSame($feature, $e->feature);
        }
        self::assertThrows(NotFoundException::class, fn () => $inspector->tube('mails'), 'nothing was put');
        $client->put('mails', 'x');
        $job = $client->reserve('mails');
        $job->release(reason: 'is left out');
        $job = $client->reserve('mails');
        $client->close();
        self::assertThrows(NotFoundException::class, fn () => $job->delete());
        self::assertSame('x', $client->reserve('mails', 1)->body, 'it has gone back');
    }
}
