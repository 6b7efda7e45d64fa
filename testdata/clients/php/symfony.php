<?php
// Uses Symfony Messenger's own transport for beanstalkd on the server at HOST PORT, and prints a transcript.
// Parts that restart the server, as transcript.php says, come last, and only if the first argument is "durable".

declare(strict_types=1);

[, $durability, , $port] = $argv;
error_reporting(E_ALL & ~E_DEPRECATED); // of old versions on a new PHP
require __DIR__ . '/transcript.php';
require 'Pheanstalk/autoload.php';
require 'Symfony/Component/Messenger/autoload.php';
require 'Symfony/Component/EventDispatcher/autoload.php';
require 'Symfony/Component/Messenger/Bridge/Beanstalkd/autoload.php';

use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Beanstalkd\Transport\BeanstalkdPriorityStamp;
use Symfony\Component\Messenger\Bridge\Beanstalkd\Transport\BeanstalkdReceivedStamp;
use Symfony\Component\Messenger\Bridge\Beanstalkd\Transport\BeanstalkdTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerMessageFailedEvent;
use Symfony\Component\Messenger\EventListener\StopWorkerOnMessageLimitListener;
use Symfony\Component\Messenger\EventListener\StopWorkerOnTimeLimitListener;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\SentForRetryStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Worker;

final class Message
{
    public function __construct(public string $name)
    {
    }
}

function transport(string $options)
{
    global $port;
    return (new BeanstalkdTransportFactory())->createTransport('beanstalkd://' . HOST . ":$port?$options", [], new PhpSerializer());
}

function send($transport, string $name, ...$stamps): void
{
    $transport->send(new Envelope(new Message($name), $stamps));
}

function get($transport): ?Envelope
{
    foreach ($transport->get() as $envelope) {
        return $envelope;
    }
    return null;
}

function name(?Envelope $envelope): ?string
{
    return $envelope === null ? null : $envelope->getMessage()->name;
}

/** Values of the page of the job of a message. */
function job(Envelope $envelope, string ...$keys): string
{
    $stamp = $envelope->last(TransportMessageIdStamp::class) ?? $envelope->last(BeanstalkdReceivedStamp::class);
    return implode(' ', array_map(fn ($key) => $key . ' ' . figure("stats-job {$stamp->getId()}", $key), $keys));
}

say('PHP', PHP_VERSION);

part('send, get, ack', function () {
    $t = transport('tube_name=a&ttr=60');
    send($t, 'one');
    say('count', $t->getMessageCount());
    $message = get($t);
    say(name($message), job($message, 'state', 'pri', 'delay', 'ttr', 'tube'));
    $t->ack($message);
    say('count', $t->getMessageCount(), get($t));
    tries('a second ack', fn () => $t->ack($message));
    say('count of no tube', transport('tube_name=nowhere')->getMessageCount());
});

part('delay and priority', function () {
    $t = transport('tube_name=a');
    send($t, 'delayed', new DelayStamp(2000));
    say(get($t), 'count', $t->getMessageCount());
    send($t, 'low');
    !class_exists(BeanstalkdPriorityStamp::class) || send($t, 'high', new BeanstalkdPriorityStamp(1));
    foreach ([1, 2, 3] as $_) {
        say(name($message = await(fn () => get($t), 3)));
        !$message || $t->ack($message);
    }
});

part('reject', function () {
    $t = transport('tube_name=a');
    send($t, 'rejected');
    $t->reject($message = get($t));
    say(job($message, 'state'));
    tries('bury_on_reject', function () {
        $t = transport('tube_name=a&bury_on_reject=true');
        send($t, 'buried');
        $t->reject($message = get($t));
        say(job($message, 'state', 'pri'), ask('use a', 'kick 5'));
        $message = get($t);
        $t->reject($message->with(new SentForRetryStamp(true)));
        say(job($message, 'state'));
    });
});

part('bodies of others', function () {
    $t = transport('tube_name=b');
    foreach (['garbage', '{"body":"x","headers":[]}'] as $body) {
        ask('use b', 'put 5 0 60 ' . strlen($body) . "\r\n$body");
        tries($body, fn () => say('got', get_class(get($t))));
        say(withoutNumbers(ask('use b', 'peek-buried') . ' ' . ask('use b', 'peek-ready')));
        ask('use b', 'kick 9');
        while (($job = ask('use b', 'peek-ready')) !== 'NOT_FOUND') {
            ask('delete ' . explode(' ', $job)[1]);
        }
    }
});

part('keepalive', function () {
    $t = transport('tube_name=k&ttr=2');
    if (!method_exists($t, 'keepalive')) {
        say('none');
        return;
    }
    send($t, 'kept');
    $message = get($t);
    foreach ([1, 2, 3] as $_) {
        usleep(1200000);
        $t->keepalive($message, 1);
    }
    say(job($message, 'state', 'reserves', 'timeouts'));
    $t->ack($message);
    send($t, 'expires');
    $message = get($t);
    usleep(2400000);
    $t->getMessageCount(); // beanstalkd may notice only at a command of the connection that has the job
    tries('late', fn () => $t->keepalive($message));
    $message = get($t);
    say(name($message), job($message, 'reserves', 'timeouts'));
    $t->ack($message);
});

part('waiting', function () {
    $begun = microtime(true);
    say(get(transport('tube_name=w&timeout=2')), abs(microtime(true) - $begun - 2) < 1);
    $t = transport('tube_name=w&ttr=2');
    send($t, 'soon');
    $message = get($t);
    usleep(1300000);
    tries('shortly before the end', fn () => say(get($t)));
    $t->ack($message);
});

part('worker', function () {
    $t = transport('tube_name=x');
    foreach (range(1, 20) as $i) {
        send($t, "m$i");
    }
    $seen = [];
    $handle = function (Message $message) use (&$seen) {
        $seen[] = $message->name;
        $message->name !== 'm7' || throw new RuntimeException('thrown');
    };
    $failed = 0;
    $events = new EventDispatcher();
    $events->addSubscriber(new StopWorkerOnTimeLimitListener(10));
    $events->addSubscriber(new StopWorkerOnMessageLimitListener(20));
    $events->addListener(WorkerMessageFailedEvent::class, function () use (&$failed) {
        $failed++;
    });
    $bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator([Message::class => [$handle]]))]);
    (new Worker(['x' => $t], $bus, $events))->run(['sleep' => 10000]);
    say($seen, 'failed', $failed, 'left', $t->getMessageCount());
});

if ($durability !== 'durable') {
    exit(0);
}

/** Gets and acknowledges a message that comes within 5 s. */
function take($transport, string $what): void
{
    for ($n = 1; $n <= 3 && !tries("$what $n", function () use ($transport, $what) {
        $message = await(fn () => get($transport), 5);
        say($what, name($message ?: null));
        !$message || $transport->ack($message);
    }); $n++);
}

foreach (['politely', 'by force'] as $how) {
    part("restart $how between get and ack", function () {
        $t = transport('tube_name=s&ttr=60');
        send($t, 'held');
        $message = get($t);
        restart();
        !tries('ack', fn () => $t->ack($message)) || say('acknowledged');
        take($t, 'again');
    });
}

foreach (['politely', 'by force'] as $how) {
    part("restart $how of an idle transport", function () {
        $t = transport('tube_name=i');
        send($t, 'before');
        restart();
        for ($n = 1; $n <= 3 && !tries("send $n", fn () => send($t, 'after')); $n++);
        take($t, 'first');
        take($t, 'second');
    });
}

foreach (['politely', 'by force'] as $how) {
    part("restart $how during a get", function () {
        $t = transport('tube_name=g&timeout=6');
        if (($pid = pcntl_fork()) === 0) {
            usleep(500000);
            restart();
            usleep(500000);
            send(transport('tube_name=g'), 'new');
            posix_kill(getmypid(), SIGKILL); // without destructors, which would close what the parent uses
        }
        $message = await(function () use ($t) {
            try {
                return get($t);
            } catch (Throwable $e) { // whether and what depends on how soon it connects again
            }
        });
        say('got', name($message));
        $t->ack($message);
        pcntl_waitpid($pid, $status);
    });
}
