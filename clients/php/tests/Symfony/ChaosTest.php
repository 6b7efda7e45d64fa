<?php

declare(strict_types=1);

namespace Redstalk\Tests\Symfony;

use PHPUnit\Framework\TestCase;
use Redstalk\Tests\Server;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Event\WorkerRunningEvent;
use Symfony\Component\Messenger\Worker;

/** Symfony's worker goes through a backlog while the server is killed. */
final class ChaosTest extends TestCase
{
    private const MESSAGES = 10_000;

    public function testServerKilledTwice(): void
    {
        $server = Server::start('embedded');
        $app = new App("redstalk://{$server->address()}/async?wait=30&timeout=1&repeat_for=60", "redstalk://{$server->address()}/failed");
        $server->restartIn(0.2);
        for ($i = 0; $i < self::MESSAGES; $i++) {
            $app->dispatch("$i");
        }
        self::assertSame(self::MESSAGES, $app->async()->getMessageCount(), 'each was sent once');
        $handled = [];
        $deliveries = $kills = 0;
        $app->handler()->do = function (Message $message) use ($server, &$handled, &$deliveries, &$kills): void {
            $handled[$message->text] = true;
            if (++$deliveries === 3000 || $deliveries === 6000) {
                $server->restartIn(0.05);
                $kills++;
            }
        };
        $dispatcher = new EventDispatcher();
        $dispatcher->addListener(WorkerRunningEvent::class, function (WorkerRunningEvent $event) use (&$handled): void {
            if ($event->isWorkerIdle() && count($handled) === self::MESSAGES) {
                $event->getWorker()->stop();
            }
        });
        (new Worker(['async' => $app->async()], $app->bus(), $dispatcher))->run(['sleep' => 0]);
        self::assertSame([self::MESSAGES, 2], [count($handled), $kills]);
        self::assertSame(0, $app->async()->getMessageCount(), 'nothing is left');
        self::assertLessThan(self::MESSAGES + 10, $deliveries, 'only messages under way are delivered again');
    }
}
