<?php

declare(strict_types=1);

namespace Redstalk\Tests\Laravel;

use Illuminate\Queue\Events\JobProcessed;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use PHPUnit\Framework\TestCase;
use Redstalk\Tests\Laravel\Jobs\Log;
use Redstalk\Tests\Laravel\Jobs\Plain;
use Redstalk\Tests\Server;

require_once __DIR__ . '/Jobs.php';

/** Laravel's worker goes through a backlog while the server is killed. */
final class ChaosTest extends TestCase
{
    private const JOBS = 10_000;

    public function testServerKilledTwice(): void
    {
        $server = Server::start('embedded');
        $app = new App($server, ['block_for' => 1, 'timeout' => 30]);
        $app->queue()->bulk(array_map(fn ($i) => new Plain("$i"), range(1, self::JOBS)));
        $handled = [];
        $deliveries = $kills = 0;
        Log::$do = function (Plain $job) use ($server, &$handled, &$deliveries, &$kills): void {
            $handled[$job->name] = true;
            if (++$deliveries === 3000 || $deliveries === 6000) {
                $server->restartIn(0.05);
                $kills++;
            }
        };
        /** @var Worker $worker */
        $worker = $app->app['queue.worker'];
        $app->app['events']->listen(JobProcessed::class, function () use ($worker, &$handled, $app): void {
            $worker->shouldQuit = count($handled) === self::JOBS && $app->queue()->size() === 0;
        });
        // A job whose delivery was lost with the server counts as tried once.
        $worker->daemon('redstalk', 'default', new WorkerOptions(sleep: 0, memory: 1024, maxTries: 5));
        self::assertSame([self::JOBS, 2], [count($handled), $kills]);
        self::assertSame(0, $app->queue()->size(), 'nothing is left');
        self::assertLessThan(self::JOBS + 10, $deliveries, 'only jobs under way are delivered again');
    }

    public function testPushedWhileTheServerIsKilled(): void
    {
        $server = Server::start('embedded');
        $queue = (new App($server, ['repeat_for' => 60, 'timeout' => 30]))->queue();
        for ($i = 0; $i < 2000; $i++) {
            if ($i === 500 || $i === 1000) {
                $server->restartIn(0.02);
            }
            $queue->push(new Plain("$i"));
        }
        $queue->bulk(array_map(fn ($i) => new Plain("$i"), range(1, 100)));
        self::assertSame(2100, $queue->size(), 'each once');
    }
}
