<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Redstalk\Client;
use Redstalk\Exception\BatchSealedException;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Inspector;
use Redstalk\PutOptions;
use Redstalk\Schedules;
use Redstalk\Times;

/** Batches and schedules on every engine, and what beanstalkd says of them. */
final class BatchesTest extends TestCase
{
    use Throws;

    /** @return iterable<string, array{string}> */
    public static function everyEngine(): iterable
    {
        return ClientTest::everyEngine();
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testBatch(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $batch = $client->batch('import-7');
        $rows = [$batch->add('rows', 'one'), $batch->add('rows', 'two', new PutOptions(priority: 7))];
        $mail = $batch->after('mails', 'mail');
        $log = $batch->afterAll('mails', 'log');
        self::assertSame('open', $batch->stats()->state);
        $batch->seal();
        self::assertThrows(BatchSealedException::class, fn () => $batch->add('rows', 'three'));
        $members = array_map(fn ($job) => [$job->id, $job->tube, $job->state], iterator_to_array($batch->members(), false));
        sort($members);
        self::assertSame([[$rows[0]->id, 'rows', 'ready'], [$rows[1]->id, 'rows', 'ready']], $members);
        $client->reserve('rows')->delete();
        $stats = $batch->stats();
        self::assertSame(['import-7', 'sealed', true, 2, 1, 1], [$stats->name, $stats->state, $stats->sealed, $stats->total, $stats->pending, $stats->done]);
        $after = ['tube' => 'mails', 'state' => 'delayed'];
        self::assertEquals([['id' => $mail->id, 'all' => false] + $after, ['id' => $log->id, 'all' => true] + $after], $stats->after);
        $client->reserve('rows')->delete();
        $ran = [$client->reserve('mails', 10)->body, $client->reserve('mails', 10)->body];
        sort($ran);
        self::assertSame(['log', 'mail'], $ran);

        $other = $client->batch('12');
        $client->putMany(array_map(fn ($n) => ['rows', (string) $n, new PutOptions(batch: '12')], range(1, 250)));
        self::assertCount(250, iterator_to_array($other->members(), false));
        $other->after('mails', 'parked');
        $other->afterAll('mails', 'in any case');
        self::assertSame(250, $other->cancel());
        self::assertSame('in any case', $client->reserve('mails', 10)->body);
        self::assertSame(1, (new Inspector($client))->tube('mails')->buried);
        $found = [];
        foreach ((new Inspector($client))->batches() as $one) {
            $found[$one->name] = [$one->state, $one->done, $one->gone];
        }
        self::assertSame([12 => ['failed', 0, 250], 'import-7' => ['done', 2, 0]], $found);
        self::assertThrows(NotFoundException::class, fn () => $client->batch('none')->stats());
        self::assertThrows(InvalidArgumentException::class, fn () => $client->batch("a\r\nb"));
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testSchedules(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $schedules = new Schedules($client);
        $times = new Times(cron: '30 2 * * 1-5', tz: 'Europe/Berlin', spread: 30, overlap: 'allow', catchUp: 3600, catchUpAll: 3);
        $schedules->set('nightly', 'reports', "all\r\n", $times, new PutOptions(priority: 7, ttr: 600, delay: 5, retry: [60, 600], group: 'a b'));
        $nightly = $schedules->get('nightly');
        self::assertSame(['reports', '30 2 * * 1-5', 7, 600, false], [$nightly['tube'], $nightly['cron'], $nightly['pri'], $nightly['ttr'], $nightly['paused']]);
        $next = $schedules->preview('nightly', 3);
        self::assertEquals($schedules->previewCron('30 2 * * 1-5', 3, 'Europe/Berlin'), $next);
        self::assertSame((int) $next[0]->format('Uv'), $nightly['next-ms']);
        $schedules->pause('nightly');
        self::assertSame([['nightly', true]], array_map(fn ($s) => [$s['name'], $s['paused']], iterator_to_array($schedules->all(), false)));
        $schedules->resume('nightly');
        $put = $schedules->run('nightly');
        self::assertSame([7, 'a b'], [(new Inspector($client))->job($put->id)->priority, (new Inspector($client))->job($put->id)->group]);
        self::assertThrows(InvalidArgumentException::class, fn () => $schedules->set('nightly', 'other', 'x', $times));
        self::assertThrows(InvalidArgumentException::class, fn () => $schedules->set('wrong', 'reports', 'x', new Times(cron: '61 * * * *')));
        self::assertThrows(InvalidArgumentException::class, fn () => $schedules->set('at', 'reports', 'x', $times, new PutOptions(at: new \DateTimeImmutable())));
        $schedules->delete('nightly');
        self::assertNull($schedules->get('nightly'));
        self::assertThrows(NotFoundException::class, fn () => $schedules->run('nightly'));

        $schedules->set('soon', 'reports', 'x', new Times(every: 1));
        self::assertSame('x', $client->reserve('reports', 10)?->body);
    }

    public function testOnBeanstalkd(): void
    {
        $server = Server::start('beanstalkd');
        $client = new Client($server->address());
        foreach (
            [
            'put with batch' => fn () => $client->batch('b')->add('t', 'x'),
            'put with after' => fn () => $client->batch('b')->after('t', 'x'),
            'put with after-all' => fn () => $client->batch('b')->afterAll('t', 'x'),
            'stats-batch' => fn () => $client->batch('b')->stats(),
            'list-members' => fn () => iterator_to_array($client->batch('b')->members()),
            'cancel-batch' => fn () => $client->batch('b')->cancel(),
            'list-batches' => fn () => iterator_to_array((new Inspector($client))->batches()),
            'get-schedule' => fn () => (new Schedules($client))->get('s'),
            'run-schedule' => fn () => (new Schedules($client))->run('s'),
            'preview-schedule' => fn () => (new Schedules($client))->previewCron('@daily'),
            'seal-batch' => fn () => $client->batch('b')->seal(),
            'set-schedule' => fn () => (new Schedules($client))->set('s', 't', 'x', new Times(every: 1)),
            'list-schedules' => fn () => iterator_to_array((new Schedules($client))->all()),
            ] as $feature => $do
        ) {
            self::assertSame($feature, self::assertThrows(UnsupportedException::class, $do)->feature);
        }
    }
}
