<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Redstalk\Client;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\JobTooBigException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Inspector;
use Redstalk\PutOptions;

/** A job that takes long goes on where it was, and shows how far it is. */
final class CheckpointsTest extends TestCase
{
    use Throws;

    /** @return iterable<string, array{string}> */
    public static function saving(): iterable
    {
        yield 'memory' => ['memory'];
        yield 'embedded' => ['embedded'];
    }

    /** @dataProvider saving */
    #[DataProvider('saving')]
    public function testCheckpoints(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $inspector = new Inspector($client);
        $id = $client->put('import', 'x')->id;
        $job = $client->reserve('import');
        self::assertNull($job->lastCheckpoint());
        foreach (['text', '', 7, ['é' => [1, null]], false, 1.0, str_repeat('x', 65_534)] as $value) {
            $job->checkpoint($value);
            self::assertSame($value, $job->lastCheckpoint());
            $job->giveBack();
            $stats = $inspector->job($id);
            self::assertSame(['ready', 0, 0], [$stats->state, $stats->failures, $stats->deliveries]);
            self::assertSame(strlen($client->getCheckpoint($id)), $stats->checkpointBytes);
            $job = $client->reserve('import');
            self::assertSame($value, $job->lastCheckpoint());
        }
        self::assertThrows(JobTooBigException::class, fn () => $job->checkpoint(str_repeat('x', 65_535)));
        self::assertThrows(InvalidArgumentException::class, fn () => $job->checkpoint(["\xff"]));
        self::assertSame(65_536, strlen($client->getCheckpoint($id)));
        $job->checkpoint(null);
        self::assertSame([null, null], [$job->lastCheckpoint(), $client->getCheckpoint($id)]);
        $job->giveBack();

        $own = $client->reserveJob($id);
        $client->checkpoint($id, 'no JSON');
        self::assertThrows(InvalidArgumentException::class, fn () => $own->lastCheckpoint());
        $own->checkpoint(['row' => 9]);
        $own->giveBack();
        self::assertSame(['row' => 9], $client->reserveJob($id)->lastCheckpoint());
    }

    /** @dataProvider saving */
    #[DataProvider('saving')]
    public function testOnlyThePresentLeaseSaves(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $id = $client->put('import', 'x', new PutOptions(ttr: 1))->id;
        $late = $client->reserve('import');
        $late->checkpoint('late');
        $now = $client->reserve('import', 5);
        self::assertSame([$id, 'late'], [$now->id, $now->lastCheckpoint()]);
        self::assertThrows(NotFoundException::class, fn () => $late->checkpoint('later'));
        self::assertThrows(NotFoundException::class, fn () => $late->touch('later'));
        self::assertThrows(NotFoundException::class, fn () => $client->checkpoint($id, 'later'));
        self::assertSame(['late', '"late"'], [$late->lastCheckpoint(), $client->getCheckpoint($id)]);
    }

    /** @dataProvider saving */
    #[DataProvider('saving')]
    public function testWorkerKilled(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $client->put('import', 'x', new PutOptions(ttr: 1));
        [$read, $write] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $worker = pcntl_fork();
        if ($worker === 0) {
            pcntl_alarm(60);
            $job = (new Client($server->address()))->reserve('import', 5);
            for ($row = 1; ; $row++) {
                $job->checkpoint(['row' => $row]);
                fwrite($write, "$row\n");
            }
        }
        fclose($write);
        for ($acknowledged = 0; ($line = fgets($read)) !== false; $acknowledged = (int) $line) {
            if ((int) $line === 20) {
                posix_kill($worker, SIGKILL);
            }
        }
        pcntl_waitpid($worker, $status);
        $row = $client->reserve('import', 20)->lastCheckpoint()['row'];
        self::assertGreaterThanOrEqual(20, $acknowledged);
        self::assertContains($row - $acknowledged, [0, 1]);
    }

    /** Those that are too many for one reply are asked for when they are needed. */
    public function testManyLongCheckpoints(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $value = fn ($job) => str_pad("$job->id", 65_000);
        $client->putMany(array_fill(0, 70, ['import', 'x'])); // 4.5 MB
        foreach ($client->reserveBatch('import', 70) as $job) {
            $job->checkpoint($value($job));
            $job->giveBack();
        }
        $jobs = $client->reserveBatch('import', 70);
        self::assertCount(70, $jobs);
        foreach ($jobs as $job) {
            self::assertSame($value($job), $job->lastCheckpoint());
        }
    }

    public function testKicksAndReplays(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $inspector = new Inspector($client);
        $id = $client->put('import', 'x')->id;
        $ways = [
            fn ($keep) => $inspector->kick('import', 1, $keep),
            fn ($keep) => $inspector->kickJob($id, $keep),
            fn ($keep) => $inspector->replay($id, $keep),
        ];
        foreach ($ways as $way) {
            foreach ([true, false] as $keep) {
                $job = $client->reserve('import');
                $job->checkpoint('saved');
                $job->bury();
                $way($keep);
                self::assertSame($keep ? '"saved"' : null, $client->getCheckpoint($id));
            }
        }
    }

    public function testProgress(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $inspector = new Inspector($client);
        $id = $client->put('import', 'x', new PutOptions(ttr: 2))->id;
        $job = $client->reserve('import');
        self::assertNull($inspector->job($id)->progress);
        usleep(1_200_000);
        $job->touch("7/10 \"é\"\n");
        usleep(1_200_000);
        self::assertSame(["7/10 \"é\"\n", 'reserved'], [$inspector->job($id)->progress, $inspector->job($id)->state]);
        $job->touch();
        self::assertSame("7/10 \"é\"\n", iterator_to_array($inspector->jobs('import', 'reserved'))[0]->progress);
        self::assertThrows(InvalidArgumentException::class, fn () => $job->touch(str_repeat('x', 257)));
        self::assertThrows(InvalidArgumentException::class, fn () => $job->touch("\0"));
        $job->touch('');
        self::assertNull($inspector->job($id)->progress);
    }

    public function testBeanstalkd(): void
    {
        $server = Server::start('beanstalkd');
        $client = new Client($server->address());
        $id = $client->put('import', 'x')->id;
        $job = $client->reserve('import');
        $job->touch();
        self::assertNull($job->lastCheckpoint());
        $calls = [
            'checkpoint' => fn () => $job->checkpoint(1),
            'touch with progress' => fn () => $job->touch('1 %'),
            'get-checkpoint' => fn () => $client->getCheckpoint($id),
            'kick-job with keep-checkpoint' => fn () => (new Inspector($client))->kickJob($id, keepCheckpoint: true),
        ];
        foreach ($calls as $feature => $call) {
            self::assertSame($feature, self::assertThrows(UnsupportedException::class, $call)->feature);
        }
        $job->giveBack();
        self::assertSame($id, $client->reserve('import')->id);
    }
}
