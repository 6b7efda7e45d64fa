<?php

declare(strict_types=1);

namespace Redstalk\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Psr\Log\AbstractLogger;
use Redstalk\Client;
use Redstalk\Exception\DrainingException;
use Redstalk\Exception\ForbiddenException;
use Redstalk\Exception\InvalidArgumentException;
use Redstalk\Exception\NotFoundException;
use Redstalk\Exception\UnauthorizedException;
use Redstalk\Exception\UnavailableException;
use Redstalk\Exception\UnknownOutcomeException;
use Redstalk\Inspector;
use Redstalk\Job;
use Redstalk\PutOptions;

/** What the client does when something fails, and how it lets itself in. */
final class FailuresTest extends TestCase
{
    use Throws;

    public function testServerRestarts(): void
    {
        $server = Server::start('embedded');
        $logger = new class extends AbstractLogger {
            /** @var list<string> */
            public array $lines = [];

            public function log($level, $message, array $context = []): void
            {
                $this->lines[] = "$level $message";
            }
        };
        $client = new Client($server->address(), logger: $logger);
        $id = $client->put('mails', 'before')->id;
        $job = $client->reserve('mails');
        $server->kill();
        $server->run();
        self::assertGreaterThan($id, $client->put('mails', 'after')->id, 'the connection was idle, so the put was not sent on it');
        $server->kill();
        $server->run();
        $job->delete();
        self::assertSame('after', $client->reserve('mails')->body);
        self::assertSame(array_fill(0, 3, 'debug redstalk: connected to '.$server->address()), $logger->lines);
    }

    public function testConnectionIsClosedByOthers(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $client->put('mails', 'x');
        $job = $client->reserve('mails');
        foreach (get_resources('stream') as $stream) {
            str_contains(stream_get_meta_data($stream)['stream_type'], 'socket') && fclose($stream);
        }
        $job->delete();
        self::assertSame(2, $client->put('mails', 'y')->id);
    }

    /** @return iterable<string, array{string}> */
    public static function forks(): iterable
    {
        yield 'redstalk' => ['memory'];
        yield 'beanstalkd' => ['beanstalkd'];
    }

    /**
     * In a new process a client has a connection of its own.
     *
     * @dataProvider forks
     */
    #[DataProvider('forks')]
    public function testFork(string $engine): void
    {
        $server = Server::start($engine);
        $client = new Client($server->address());
        $client->put('held', 'x');
        $job = $client->reserve('held');
        $puts = function (string $name) use ($client): bool {
            $inspector = new Inspector($client);
            for ($i = 0; $i < 100; $i++) {
                if ($inspector->peek($client->put('fork', "$name $i")->id)?->body !== "$name $i") {
                    return false;
                }
            }

            return true;
        };
        $child = pcntl_fork();
        if ($child === 0) {
            pcntl_alarm(20);
            $right = $puts('child') && ($engine === 'memory' || self::isLost($job));
            $client->close();
            posix_kill(getmypid(), $right ? SIGKILL : SIGTERM); // without what PHPUnit does at the end
        }
        self::assertTrue($puts('parent'));
        pcntl_waitpid($child, $status);
        self::assertSame(SIGKILL, pcntl_wtermsig($status));
        $job->delete();
    }

    private static function isLost(Job $job): bool
    {
        try {
            $job->delete();
        } catch (NotFoundException) {
            return true;
        }

        return false;
    }

    public function testReserveWaitsForARestart(): void
    {
        $server = Server::start('embedded');
        $client = new Client($server->address());
        $client->put('mails', 'x', new PutOptions(delay: 2));
        $server->restartIn(0.5);
        self::assertSame('x', $client->reserve('mails', 20)?->body);
    }

    public function testNoServer(): void
    {
        $server = Server::start();
        $client = new Client($server->address(), timeout: 0.2);
        $client->put('mails', 'x');
        $server->kill();
        $begin = microtime(true);
        self::assertThrows(UnavailableException::class, fn () => $client->put('mails', 'x'));
        self::assertGreaterThan(0.2, microtime(true) - $begin);
        $server->run();
        self::assertNull($client->reserve('mails'));
    }

    public function testLostReply(): void
    {
        $server = Server::start();
        $client = new Client($server->address(), timeout: 20, replyTimeout: 1);
        $inspector = new Inspector($client);
        $client->capabilities();
        $server->freeze();
        self::assertThrows(UnknownOutcomeException::class, fn () => $client->put('mails', 'once'));
        $server->thaw();
        $client->reserve('mails', 5)->delete();

        $server->freeze();
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, fn () => $server->thaw());
        pcntl_alarm(3);
        $client->put('mails', 'repeated', new PutOptions(key: 'k', keyTtl: 60));
        pcntl_signal(SIGALRM, SIG_DFL);
        self::assertSame(1, $inspector->tube('mails')->ready);
    }

    public function testLostRepliesToMany(): void
    {
        $server = Server::start();
        $client = new Client($server->address(), timeout: 20, replyTimeout: 1);
        $client->capabilities();
        $server->freeze();
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, fn () => $server->thaw());
        pcntl_alarm(3);
        $results = $client->putMany([['mails', 'a'], ['mails', 'b', new PutOptions(key: 'b', keyTtl: 60)], ['mails', 'c']]);
        pcntl_signal(SIGALRM, SIG_DFL);
        self::assertInstanceOf(UnknownOutcomeException::class, $results[0]);
        self::assertInstanceOf(UnknownOutcomeException::class, $results[2]);
        self::assertSame($results[1]->id, (new Inspector($client))->find('mails', 'b')->id);
        self::assertSame(3, (new Inspector($client))->tube('mails')->ready);
    }

    /** A job goes on when the instance dies that has delivered it. */
    public function testSeveralAddresses(): void
    {
        $one = Server::start('redis');
        $two = $one->twin();
        $client = new Client("{$one->address()}, {$two->address()}", timeout: 20);
        foreach ([$one, $two, $one, $two] as $server) {
            $id = $client->put('mails', 'x')->id;
            $job = $client->reserve('mails');
            $server->kill();
            $job->touch();
            self::assertSame($id, $job->id);
            $job->delete();
            $server->run();
        }
        self::assertSame(0, (new Inspector($client))->tube('mails')->reserved);
    }

    public function testDraining(): void
    {
        $one = Server::start();
        $two = Server::start();
        (new Inspector(new Client($one->address())))->drain();
        $client = new Client("{$one->address()},{$two->address()}");
        for ($i = 0; $i < 5; $i++) {
            (new Client("{$one->address()},{$two->address()}"))->put('mails', 'x');
            $client->put('mails', 'y');
        }
        self::assertSame(10, (new Inspector(new Client($two->address())))->tube('mails')->ready);
        self::assertThrows(DrainingException::class, fn () => (new Client($one->address()))->put('mails', 'x'));
    }

    /** A put that a server refuses after it has accepted one goes over a new connection, which can lead to another server. */
    public function testDrainingBehindOneAddress(): void
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $replies = [['INSERTED 1', 'DRAINING'], ['INSERTED 2', 'DRAINING'], ['DRAINING']]; // of each connection
        if (($child = pcntl_fork()) === 0) {
            foreach ($replies as $words) {
                $connection = stream_socket_accept($listener, 10);
                for (array_unshift($words, "OK 4\r\n---\n"); $words !== [] && ($line = fgets($connection)); fwrite($connection, array_shift($words)."\r\n")) {
                    str_starts_with($line, 'put ') && fgets($connection);
                }
            }
            posix_kill(getmypid(), SIGKILL); // without what PHPUnit does at the end
        }
        $client = new Client(stream_socket_get_name($listener, false));
        self::assertSame([1, 2], [$client->put('default', 'a')->id, $client->put('default', 'b')->id]);
        self::assertThrows(DrainingException::class, fn () => $client->put('default', 'c'));
        pcntl_waitpid($child, $status);
    }

    /** A signal handler can use the client while it waits. */
    public function testSignalHandler(): void
    {
        $server = Server::start();
        $client = new Client($server->address());
        $client->put('mails', 'held', new PutOptions(ttr: 3));
        $job = $client->reserve('mails');
        pcntl_async_signals(true);
        $touched = 0;
        pcntl_signal(SIGALRM, function () use ($job, &$touched): void {
            $job->touch();
            $touched++;
            pcntl_alarm(1);
        });
        pcntl_alarm(1);
        $end = microtime(true) + 3.5;
        for ($i = 0; microtime(true) < $end; $i++) {
            self::assertSame($client->put('other', "$i")->id, $client->reserve('other')->id);
        }
        pcntl_alarm(0);
        pcntl_signal(SIGALRM, SIG_DFL);
        self::assertGreaterThan(1, $touched);
        $job->delete();
    }

    public function testTlsAndUsers(): void
    {
        [$certificate, $key, $access] = self::files();
        $probe = Server::start();
        $tls = $probe->port;
        $probe->kill();
        $server = Server::start('memory', '--tls', "127.0.0.1:$tls", '--tls-cert', $certificate, '--tls-key', $key, '--access', $access);
        $options = ['cafile' => $certificate, 'peer_name' => 'localhost'];
        $client = new Client("tls://127.0.0.1:$tls", user: 'app', secret: 'open sesame', tls: $options);
        $client->put('mails', str_repeat('x', 60000));
        self::assertSame(60000, strlen($client->reserve('mails')->body));
        self::assertThrows(ForbiddenException::class, fn () => $client->put('sms', 'x'));
        self::assertThrows(ForbiddenException::class, fn () => $client->reserve(['mails', 'sms']));
        $client->put('mails', 'goes on');
        self::assertSame('goes on', $client->reserve('mails')->body);

        $begin = microtime(true);
        self::assertThrows(UnauthorizedException::class, fn () => (new Client($server->address(), user: 'app', secret: 'wrong'))->capabilities());
        $other = new Client("tls://127.0.0.1:$tls", user: 'app', secret: 'open sesame', tls: ['peer_name' => 'localhost'], timeout: 0.1);
        $e = self::assertThrows(UnavailableException::class, fn () => $other->capabilities());
        self::assertStringContainsString('certificate verify failed', $e->getMessage());
        self::assertLessThan(5, microtime(true) - $begin);
        self::assertThrows(InvalidArgumentException::class, fn () => new Client(user: 'a b'));
        array_map(unlink(...), [$certificate, $key, $access]);
    }

    /** @return list<string> the files of a certificate for localhost, its key, and a user who may put and work on mails */
    private static function files(): array
    {
        $files = array_map(fn () => tempnam(sys_get_temp_dir(), 'redstalk-php'), range(1, 3));
        $private = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
        $request = openssl_csr_new(['commonName' => 'localhost'], $private);
        openssl_x509_export_to_file(openssl_csr_sign($request, null, $private, 1), $files[0]);
        openssl_pkey_export_to_file($private, $files[1]);
        $hash = password_hash('open sesame', PASSWORD_BCRYPT, ['cost' => 4]);
        file_put_contents($files[2], "users: [{name: app, secrets: ['$hash'], rights: [{tubes: [mails], may: [put, work]}]}]\n");

        return $files;
    }
}
