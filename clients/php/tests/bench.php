<?php

declare(strict_types=1);

// Compares the drivers with the Redis drivers of Laravel and Symfony, in turns: php tests/bench.php [JOBS [ROUNDS]]
// It prints jobs per second, and in brackets the processor time of PHP per job in µs. Medians of the rounds.

namespace Redstalk\Tests;

use Illuminate\Queue\WorkerOptions;
use Redstalk\Symfony\RedstalkTransportFactory;
use Redstalk\Tests\Laravel\App;
use Redstalk\Tests\Laravel\Jobs\Plain;
use Redstalk\Tests\Symfony\Message;
use Symfony\Component\Messenger\Bridge\Redis\Transport\RedisTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\EventListener\StopWorkerOnMessageLimitListener;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Worker;

require __DIR__ . '/bootstrap.php';
require __DIR__ . '/Laravel/Jobs.php';

$jobs = (int) ($argv[1] ?? 5000);
$rounds = (int) ($argv[2] ?? 5);
$redis = Server::startRedis();
$servers = ['memory' => Server::start('memory'), 'embedded' => Server::start('embedded'), 'Redis engine' => Server::start('redis')];

/** @return array{float, float} jobs per second, and processor time of this process per job in µs */
function measure(int $jobs, \Closure $do): array
{
    $processor = fn () => array_sum(array_map(
        fn ($kind) => getrusage()["ru_$kind.tv_sec"] * 1e6 + getrusage()["ru_$kind.tv_usec"],
        ['utime', 'stime'],
    ));
    [$time, $used] = [microtime(true), $processor()];
    $do();

    return [$jobs / (microtime(true) - $time), ($processor() - $used) / $jobs];
}

$results = [];
$run = function (string $driver, string $what, \Closure $do) use (&$results, $jobs): void {
    $results[$driver][$what][] = measure($jobs, $do);
};

$app = new App($servers['memory'], ['redis' => ['host' => '127.0.0.1', 'port' => $redis->port, 'database' => 0]]);
$config = $app->app['config'];
$config->set('queue.connections.redis', ['driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 90]);
foreach ($servers as $name => $server) {
    $config->set("queue.connections.$name", ['driver' => 'redstalk', 'host' => $server->address(), 'retry_after' => 90]);
}
$laravel = function (string $connection, string $driver) use ($app, $jobs, $run): void {
    $queue = $app->app['queue']->connection($connection);
    $work = function () use ($app, $connection, $jobs): void {
        \Redstalk\Tests\Laravel\Jobs\Log::take();
        $app->app['queue.worker']->daemon($connection, 'default', new WorkerOptions(sleep: 0, maxJobs: $jobs, memory: 1024));
    };
    $run($driver, 'push', fn () => array_map(fn () => $queue->push(new Plain()), range(1, $jobs)));
    $run($driver, 'work', $work);
    $run($driver, 'bulk', fn () => $queue->bulk(array_map(fn () => new Plain(), range(1, $jobs))));
    $work();
};

$transports = ['Symfony, Redis' => (new RedisTransportFactory())->createTransport("redis://127.0.0.1:$redis->port", [], new PhpSerializer())];
foreach ($servers as $name => $server) {
    $transports["Symfony, redstalk $name"] = (new RedstalkTransportFactory())->createTransport("redstalk://{$server->address()}/bench", [], new PhpSerializer());
}
$symfony = function (string $driver) use ($transports, $jobs, $run): void {
    $transport = $transports[$driver];
    $bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator([Message::class => [fn () => null]]))]);
    $events = new EventDispatcher();
    $events->addSubscriber(new StopWorkerOnMessageLimitListener($jobs));
    $run($driver, 'push', fn () => array_map(fn () => $transport->send(new Envelope(new Message('x'))), range(1, $jobs)));
    $run($driver, 'work', fn () => (new Worker([$transport], $bus, $events))->run(['sleep' => 0]));
};

for ($round = 0; $round < $rounds; $round++) {
    $laravel('redis', 'Laravel, Redis');
    foreach (array_keys($servers) as $name) {
        $laravel($name, "Laravel, redstalk $name");
    }
    foreach (array_keys($transports) as $driver) {
        $symfony($driver);
    }
}
ksort($results);
echo "| driver | one by one | `bulk` | worker |\n|---|--:|--:|--:|\n";
foreach ($results as $driver => $all) {
    $cells = array_map(function (string $what) use ($all): string {
        if (!isset($all[$what])) {
            return '';
        }
        usort($all[$what], fn ($a, $b) => $a <=> $b);
        [$rate, $processor] = $all[$what][intdiv(count($all[$what]), 2)];

        return sprintf('%s (%.0f)', number_format($rate), $processor);
    }, ['push', 'bulk', 'work']);
    echo "| $driver | " . implode(' | ', $cells) . " |\n";
}
