<?php

declare(strict_types=1);

namespace Redstalk\Tests\Symfony;

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;
use Redstalk\Client;
use Redstalk\Exception\UnsupportedException;
use Redstalk\Inspector;
use Redstalk\OnExpire;
use Redstalk\PutOptions;
use Redstalk\Symfony\RedstalkReceivedStamp;
use Redstalk\Symfony\RedstalkStamp;
use Redstalk\Symfony\RedstalkTransportFactory;
use Redstalk\Tests\Server;
use Redstalk\Tests\Throws;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\SentForRetryStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\CloseableTransportInterface;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

/** The transport in a Symfony application, with messenger:consume. */
final class TransportTest extends TestCase
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

    private static function app(Server $server, string $query = ''): App
    {
        return new App("redstalk://{$server->address()}/async?$query", "redstalk://{$server->address()}/failed");
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testSendAndConsume(string $engine): void
    {
        $app = self::app($server = Server::start($engine), 'timeout=1');
        self::assertSame(0, $app->async()->getMessageCount());
        $id = $app->dispatch('ü')->last(TransportMessageIdStamp::class)->getId();
        $app->dispatch('second');
        $app->dispatch('later', new DelayStamp(90_000));
        self::assertSame(3, $app->async()->getMessageCount());
        self::assertSame(['ü', 'second'], $app->consume(2));
        $inspector = new Inspector(new Client($server->address()));
        self::assertNull($inspector->peek((int) $id));
        self::assertSame(1, $app->async()->getMessageCount());
        $job = $inspector->job($inspector->peekDelayed('async')->id);
        self::assertEqualsWithDelta(90, $job->left, 10);
        self::assertSame(90, $job->ttr);
        $inspector->kick('async', 1);
        self::assertSame(['later'], $app->consume(1));
    }

    /** @dataProvider everyServer */
    #[DataProvider('everyServer')]
    public function testRetriesAndFailureTransport(string $engine): void
    {
        $app = self::app($server = Server::start($engine));
        $inspector = new Inspector(new Client($server->address()));
        $app->dispatch('mail');
        $app->handler()->do = fn () => throw new \RuntimeException('no such user');
        foreach ([10, 20, 40] as $delay) {
            self::assertSame(['mail'], $app->consume(1));
            self::assertSame(1, $app->async()->getMessageCount());
            self::assertEqualsWithDelta($delay, $inspector->job($inspector->peekDelayed('async')->id)->left, 4);
            $inspector->kick('async', 1);
        }
        self::assertSame(['mail'], $app->consume(1));
        self::assertSame([0, 1], [$app->async()->getMessageCount(), $app->failed()->getMessageCount()]);
        if ($engine === 'beanstalkd') {
            self::assertInstanceOf(UnsupportedException::class, self::assertThrows(TransportException::class, fn () => $app->console('messenger:failed:show'))->getPrevious());

            return;
        }
        $list = $app->console('messenger:failed:show');
        self::assertStringContainsString('no such user', $list);
        $id = iterator_to_array($app->failed()->all())[0]->last(TransportMessageIdStamp::class)->getId();
        self::assertStringContainsString('RuntimeException', $app->console("messenger:failed:show $id"));
        self::assertNull($app->failed()->find(999));
        $app->handler()->do = null;
        $app->console("messenger:failed:retry $id --force");
        self::assertSame(['mail'], $app->handler()->take());
        self::assertSame(0, $app->failed()->getMessageCount());
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testFailedMessagesAreListedAndRemoved(string $engine): void
    {
        $app = self::app($server = Server::start($engine));
        for ($i = 0; $i < 5; $i++) {
            $app->failed()->send($app->dispatch("$i", new DelayStamp($i % 2 * 60_000)));
        }
        $texts = array_map(fn ($envelope) => $envelope->getMessage()->text, iterator_to_array($app->failed()->all(), false));
        self::assertSame(['0', '2', '4', '1', '3'], $texts);
        self::assertCount(4, iterator_to_array($app->failed()->all(4), false));
        foreach ($app->failed()->all(2) as $envelope) {
            $app->console("messenger:failed:remove {$envelope->last(TransportMessageIdStamp::class)->getId()} --force");
        }
        self::assertSame(3, $app->failed()->getMessageCount());
    }

    /** @dataProvider everyEngine */
    #[DataProvider('everyEngine')]
    public function testStamp(string $engine): void
    {
        $app = self::app($server = Server::start($engine));
        $inspector = new Inspector(new Client($server->address()));
        $stamp = new RedstalkStamp(new PutOptions(
            priority: 5,
            key: 'welcome-7',
            keyTtl: 60,
            group: 'ann',
            batch: 'mailing',
            meta: ['a' => 'b'],
            expire: 300,
            onExpire: OnExpire::Park,
            at: new \DateTimeImmutable('-1 minute'),
        ));
        $app->dispatch('unique', $stamp);
        $app->dispatch('unique', $stamp);
        self::assertSame(1, $app->async()->getMessageCount());
        $job = $inspector->job($inspector->peekReady('async')->id);
        self::assertSame([5, 'welcome-7', 'ann', ['a' => 'b']], [$job->priority, $job->key, $job->group, $job->meta]);
        self::assertSame(1, (new Client($server->address()))->batch('mailing')->stats()->pending);

        $app->handler()->do = fn () => throw new \RuntimeException('no');
        foreach (range(1, 4) as $try) {
            self::assertSame(['unique'], $app->consume(1));
            if ($try < 4) {
                $retry = $inspector->job($inspector->peekDelayed('async')->id);
                self::assertSame([5, 'ann', 'park', ['a' => 'b']], [$retry->priority, $retry->group, $retry->all['on-expire'], $retry->meta]);
            }
            $app->dispatch('unique', $stamp);
            $app->dispatch('unique', $stamp);
            $inspector->kick('async', 1);
            self::assertSame($try === 4 ? 0 : 1, $app->async()->getMessageCount(), 'it keeps its key while it is retried, and for the key-ttl');
        }
        self::assertSame(1, $app->failed()->getMessageCount());
        self::assertNull($inspector->job($inspector->peekReady('failed')->id)->key);
    }

    /** A message that is not finished goes on from its checkpoint. The worker acknowledges it, but its handler has given it back. */
    public function testCheckpoints(): void
    {
        $app = self::app($server = Server::start());
        $app->dispatch('import');
        [$envelope] = [...$app->async()->get()];
        $job = $envelope->last(RedstalkReceivedStamp::class)->job;
        self::assertNull($job->lastCheckpoint());
        $job->checkpoint(['row' => 7]);
        $job->giveBack();
        $app->async()->ack($envelope);
        [$again] = [...self::app($server)->async()->get()];
        $job = $again->last(RedstalkReceivedStamp::class)->job;
        self::assertSame([['row' => 7], 1], [$job->lastCheckpoint(), $job->stats()->deliveries]);
        $app->async()->ack($again);
        self::assertSame(0, $app->async()->getMessageCount());
    }

    /** A message whose worker is gone is delivered again; one that is kept alive is not, even while its connection is in use. */
    public function testRedeliveryAndKeepalive(): void
    {
        $app = self::app($server = Server::start(), 'ttr=2');
        $other = self::app($server, 'ttr=2&wait=10');
        $app->dispatch('slow');
        [$envelope] = [...$app->async()->get()];
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, fn () => $app->async()->keepalive($envelope, 1));
        $tick = proc_open(['sh', '-c', 'while kill -ALRM ' . getmypid() . '; do sleep 0.3; done'], [], $pipes);
        for ($end = microtime(true) + 4; microtime(true) < $end;) {
            $app->failed()->send($envelope);
        }
        self::assertSame([], [...$other->async()->get()]);
        proc_terminate($tick, SIGKILL);
        proc_close($tick);
        pcntl_signal(SIGALRM, SIG_DFL);
        while ([] === $redelivered = [...$other->async()->get()]) {
            usleep(20_000);
        }
        self::assertSame(2, $redelivered[0]->last(RedstalkReceivedStamp::class)->job->stats()->deliveries);
        self::assertThrows(TransportException::class, fn () => $app->async()->keepalive($envelope));
        self::assertThrows(TransportException::class, fn () => $app->async()->keepalive($envelope, 3));
        $app->async()->ack($envelope);
        self::assertSame(1, (new Inspector(new Client($server->address())))->tube('async')->reserved, 'the other worker has it');
        $other->async()->ack($redelivered[0]);
        self::assertThrows(\LogicException::class, fn () => $app->async()->ack($app->dispatch('not received')));
    }

    public function testKeepaliveInterfaceOfSymfony7(): void
    {
        $code = 'namespace Symfony\Component\Messenger\Transport\Receiver { interface KeepaliveReceiverInterface extends ReceiverInterface {'
            . 'public function keepalive(\Symfony\Component\Messenger\Envelope $envelope, ?int $seconds = null): void; } }'
            . 'namespace { exit(is_subclass_of("Redstalk\Symfony\RedstalkTransport", "Symfony\Component\Messenger\Transport\Receiver\KeepaliveReceiverInterface") ? 7 : 1); }';
        exec(sprintf('%s -r %s', PHP_BINARY, escapeshellarg('namespace { require ' . var_export(dirname(__DIR__) . '/bootstrap.php', true) . '; }' . $code)), $output, $status);
        self::assertSame(7, $status, implode("\n", $output));
    }

    public function testForeignBody(): void
    {
        $app = self::app($server = Server::start());
        $client = new Client($server->address());
        $message = json_encode((new PhpSerializer())->encode(new Envelope(new Message('x'))) + ['options' => ['priority' => 'x']]);
        foreach (['no json', '{"body": "no message"}', $message] as $body) {
            $client->put('async', $body);
            if (!method_exists(MessageDecodingFailedException::class, 'wrap')) {
                self::assertThrows(MessageDecodingFailedException::class, fn () => [...$app->async()->get()]);
                continue;
            }
            [$envelope] = [...$app->async()->get()]; // since Symfony 8.1 the worker can send it to the failure transport
            self::assertInstanceOf(MessageDecodingFailedException::class, $envelope->getMessage());
            $app->async()->reject($envelope);
        }
        self::assertSame(0, $app->async()->getMessageCount());
        self::assertSame(0, (new Inspector($client))->tube('async')->reserved ?? 0);
        $app->dispatch('of beanstalkd');
        $message = json_decode((new Inspector($client))->peekReady('async')->body, true);
        self::assertSame(['body', 'headers'], array_keys($message), 'the format of the transport beanstalkd://');
    }

    public function testBuryOnReject(): void
    {
        $server = Server::start();
        if (!class_exists(SentForRetryStamp::class)) {
            self::assertThrows(InvalidArgumentException::class, fn () => self::app($server, 'bury_on_reject=1')->async());

            return;
        }
        $app = self::app($server, 'bury_on_reject=1&timeout=1');
        $inspector = new Inspector(new Client($server->address()));
        $app->dispatch('mail');
        $app->handler()->do = fn () => throw new UnrecoverableMessageHandlingException('no such user');
        $app->consume(1);
        self::assertSame([0, 1], [$app->async()->getMessageCount(), $app->failed()->getMessageCount()]);
        self::assertSame(UnrecoverableMessageHandlingException::class . ': no such user', iterator_to_array($inspector->jobs('async', 'buried'))[0]->reason);
        $app->handler()->do = fn () => throw new \RuntimeException('not yet');
        $app->dispatch('again');
        $app->consume(1);
        self::assertSame([1, 1], [$inspector->tube('async')->buried, $inspector->tube('async')->delayed], 'what is tried again is not buried');
    }

    /** A message of a larger fetch is reserved only when the worker comes to it. */
    public function testFetchSize(): void
    {
        $app = self::app($server = Server::start(), 'timeout=1');
        foreach (['a', 'b', 'c'] as $text) {
            $app->dispatch($text);
        }
        $inspector = new Inspector(new Client($server->address()));
        $seen = [];
        foreach ($app->async()->get(5) as $envelope) {
            $seen[] = $envelope->getMessage()->text;
            self::assertSame(1, $inspector->tube('async')->reserved);
            $app->async()->ack($envelope);
        }
        self::assertSame(['a', 'b', 'c'], $seen);
    }

    public function testSetupAndClose(): void
    {
        $app = self::app($server = Server::start(), 'auto_setup=0&wait=0');
        self::assertStringContainsString('successfully', $app->console('messenger:setup-transports async'));
        $app->async()->close();
        $app->dispatch('connects again');
        self::assertSame(1, $app->async()->getMessageCount());
        if (interface_exists(CloseableTransportInterface::class)) {
            self::assertInstanceOf(CloseableTransportInterface::class, $app->async());
        }
        $server->kill();
        self::assertThrows(TransportException::class, fn () => $app->async()->setup());
    }

    public function testDsn(): void
    {
        $factory = new RedstalkTransportFactory();
        self::assertTrue($factory->supports('redstalk://h', []) && $factory->supports('redstalks://h', []));
        self::assertFalse($factory->supports('redis://h', []));
        foreach (['redstalk://', 'redstalk://h?ttl=1', 'redstalk://a@b@h'] as $dsn) {
            self::assertThrows(InvalidArgumentException::class, fn () => $factory->createTransport($dsn, [], new PhpSerializer()));
        }
        $server = Server::start();
        $transport = $factory->createTransport("redstalk://u:p%40@127.0.0.1:1,{$server->address()}", ['transport_name' => 'x', 'tube_name' => 't', 'wait' => 0], new PhpSerializer());
        self::assertThrows(TransportException::class, fn () => [...$transport->get()], 'this server has no users');
        $transport = $factory->createTransport("redstalk://127.0.0.1:1,{$server->address()}/t?repeat_for=60", [], new PhpSerializer());
        $transport->send(new Envelope(new Message('x')));
        $inspector = new Inspector(new Client($server->address()));
        $job = $inspector->job($inspector->peekReady('t')->id);
        self::assertNotNull($job->key);
        self::assertSame([1024, 90], [$job->priority, $job->ttr]);
        $transport = $factory->createTransport("redstalks://{$server->address()}?wait=0", [], new PhpSerializer());
        self::assertThrows(TransportException::class, fn () => [...$transport->get()], 'this server has no TLS');
    }

    public function testKeep(): void
    {
        $app = self::app($server = Server::start(), 'keep=60&timeout=1');
        $app->dispatch('kept');
        $app->dispatch('longer', new RedstalkStamp(new PutOptions(keep: 90)));
        $app->consume(2);
        $times = [];
        foreach ((new Client($server->address()))->ended('async') as $job) {
            $times[] = [$job->how, $job->until->getTimestamp() - $job->ended->getTimestamp()];
        }
        self::assertSame([['done', 90], ['done', 60]], $times);
    }
}
